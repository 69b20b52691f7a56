//! Clients that mean no good.

use serde_json::json;

use crate::client::{Server, token};
use crate::sandbox::Sandbox;

#[test]
fn a_page_of_another_server_is_refused_even_with_a_token() {
    let house = Sandbox::new();
    let server = Server::start(&house, &["--host", "box.example"]);
    let key = token(&house, "--scope run");
    let list = "/api/v1/sandboxes";
    let port = server.address.rsplit(':').next().unwrap();
    for host in [
        "evil.example",
        &format!("evil.example:{port}"),
        "x.box.example",
        "",
        "127.0.0.1.evil.example",
    ] {
        let answer = server.with(&key).header("Host", host).get(list);
        assert_eq!(answer.status, 403, "{host}: {answer}");
    }
    for host in [
        format!("localhost:{port}"),
        "box.example".to_owned(),
        "BOX.example:443".to_owned(),
    ] {
        server.with(&key).header("Host", &host).get(list).is(200);
    }
    for origin in ["http://evil.example", "null", "http://localhost:3000"] {
        let answer = server.with(&key).header("Origin", origin).get(list);
        assert_eq!(answer.problem(403), "wrong-origin", "{origin}");
    }
    // A browser asks first whether a page may; it is told no.
    let head = format!(
        "OPTIONS {list} HTTP/1.1\r\nOrigin: http://evil.example\r\nAccess-Control-Request-Method: POST\r\n"
    );
    let answer = server.open().raw(&head, b"");
    assert!(
        answer.status >= 400 && answer.header("access-control-allow-origin").is_none(),
        "{answer}"
    );
    // What a page can send without asking is no request.
    let head = format!(
        "POST {list} HTTP/1.1\r\nAuthorization: Bearer {key}\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n"
    );
    assert_eq!(server.open().raw(&head, b"{}").problem(415), "not-json");
}

#[test]
fn no_path_leads_out_of_the_files() {
    let house = Sandbox::new();
    let server = Server::start(&house, &[]);
    let client = server.with(&token(&house, "--scope admin"));
    let path = client.sandbox(&json!({}));
    client.line(
        &path,
        "ln -s /etc out; ln -s ../../../../../../etc up; echo in >file",
    );
    let outside = [
        "/../../../../etc/passwd",
        "..%2f..%2f..%2fetc%2fpasswd",
        "/out/passwd",
        "/up/passwd",
        "/file%00/../../etc/passwd",
        "",
    ];
    for asked in outside {
        for request in ["files?path=", "files/stat?path=", "files/list?path="] {
            let answer = client.get(&format!("{path}/{request}{asked}"));
            let text = String::from_utf8_lossy(&answer.body).into_owned();
            // `..` at the root is the root, as everywhere; nothing of the machine is there.
            assert!(
                !text.contains("root:") && !text.contains("shadow"),
                "{request}{asked}: {text}"
            );
            assert!(
                asked.is_empty() || answer.status >= 400,
                "{request}{asked}: {answer}"
            );
        }
    }
    for asked in ["/out/new", "/../../../../tmp/avfs-escaped"] {
        let answer = client.put(&format!("{path}/files?path={asked}"), b"x");
        assert!(
            answer.status >= 400 || !std::path::Path::new("/tmp/avfs-escaped").exists(),
            "{answer}"
        );
    }
    assert!(!std::path::Path::new("/etc/new").exists());
    for name in ["..", "%2e%2e", "..%2f..", "a%2fb", "%00", "%ff"] {
        for of in ["vaults", "sandboxes", "approvals"] {
            let answer = client.get(&format!("/api/v1/{of}/{name}"));
            assert!((400..500).contains(&answer.status), "{of}/{name}: {answer}");
        }
    }
    for name in ["../x", "a/b", "", ".x", "-x"] {
        let answer = client.post("/api/v1/vaults", &json!({ "name": name }));
        assert_eq!(answer.problem(400), "bad-name", "{name}");
    }
}

#[test]
fn oversized_request_is_refused_and_the_server_continues() {
    let house = Sandbox::new();
    let server = Server::start(&house, &[]);
    let key = token(&house, "--scope run");
    let client = server.with(&key);
    let line = format!(
        "POST /api/v1/sandboxes HTTP/1.1\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\n"
    );
    let big = vec![b' '; 17 << 20];
    let answer = server
        .open()
        .raw(&format!("{line}Content-Length: {}\r\n", big.len()), &big);
    assert_eq!(answer.status, 413, "{answer}");
    // Headers that have no end, and too many of them.
    let long = format!("{line}X-Long: {}\r\nContent-Length: 0\r\n", "x".repeat(200_000));
    assert!(matches!(server.open().raw(&long, b"").status, 400 | 431));
    let many: String = (0..200).map(|number| format!("X-{number}: 1\r\n")).collect();
    assert!(matches!(
        server
            .open()
            .raw(&format!("{line}{many}Content-Length: 0\r\n"), b"")
            .status,
        400 | 431
    ));
    let deep = "[".repeat(100_000);
    let answer = server.open().raw(
        &format!("{line}Content-Length: {}\r\n", deep.len()),
        deep.as_bytes(),
    );
    assert_eq!(answer.problem(400), "bad-request");
    let path = client.sandbox(&json!({}));
    let words = json!({ "command": "x".repeat(200_000) });
    assert_eq!(
        client.post(&format!("{path}/exec"), &words).problem(400),
        "invalid"
    );
    for words in [
        json!({ "command": "" }),
        json!({ "command": [] }),
        json!({ "command": "a\0b" }),
        json!({ "command": "true", "env": { "A=B": "c" } }),
    ] {
        assert_eq!(
            client.post(&format!("{path}/exec"), &words).problem(400),
            "invalid",
            "{words}"
        );
    }
    client.line(&path, "true");
}

#[test]
fn request_whose_length_is_ambiguous_is_refused() {
    let house = Sandbox::new();
    let server = Server::start(&house, &[]);
    let key = token(&house, "--scope run");
    let line = format!(
        "POST /api/v1/sandboxes HTTP/1.1\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\n"
    );
    for lengths in [
        "Content-Length: 2\r\nContent-Length: 4\r\n",
        "Content-Length: +2\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Transfer-Encoding: chunked, identity\r\n",
    ] {
        let answer = server
            .open()
            .raw(&format!("{line}{lengths}"), b"2\r\n{}\r\n0\r\n\r\n");
        assert_eq!(answer.status, 400, "{lengths}: {answer}");
    }
    assert_eq!(
        server.with(&key).get("/api/v1/sandboxes").is(200).json()["sandboxes"],
        json!([])
    );
}

#[test]
fn an_upload_that_breaks_off_changes_nothing() {
    use std::io::Write;

    let house = Sandbox::new();
    let server = Server::start(&house, &[]);
    let key = token(&house, "--scope run");
    let client = server.with(&key);
    let path = client.sandbox(&json!({}));
    let file = format!("{path}/files?path=/f");
    client.put(&file, b"whole").is(200);
    let mut stream = std::net::TcpStream::connect(&server.address).unwrap();
    let head = format!(
        "PUT {file} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {key}\r\nContent-Length: 1000\r\n\r\n",
        server.address
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(b"half").unwrap();
    drop(stream);
    assert_eq!(client.get(&file).is(200).body, b"whole");
    assert_eq!(
        client.get(&format!("{path}/history")).is(200).json()["history"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
}
