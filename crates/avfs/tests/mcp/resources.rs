//! Files as resources, and subscriptions to them.

use serde_json::json;

use crate::client::{Client, NEW, project};

#[test]
fn files_are_read_by_their_addresses() {
    let sandbox = project();
    std::fs::write(sandbox.path("project/data.bin"), b"\0\x01\x02").unwrap();
    let mut client = Client::start(&sandbox, &[]);
    client.good("status", json!({}));
    let listed = client.request("resources/list", json!({}));
    let uris: Vec<&str> = listed["result"]["resources"]
        .as_array()
        .unwrap()
        .iter()
        .map(|resource| resource["uri"].as_str().unwrap())
        .collect();
    assert_eq!(
        uris,
        [
            "avfs://project%2Ftask-1/data.bin",
            "avfs://project%2Ftask-1/notes.txt"
        ]
    );
    let read = client.request("resources/read", json!({ "uri": uris[1] }));
    assert_eq!(read["result"]["contents"][0]["text"], "one\ntwo\nthree\n");
    let read = client.request("resources/read", json!({ "uri": uris[0] }));
    assert_eq!(read["result"]["contents"][0]["blob"], "AAEC");
    let templates = client.request("resources/templates/list", json!({}));
    assert_eq!(
        templates["result"]["resourceTemplates"][0]["uriTemplate"],
        "avfs://{workspace}/{+path}"
    );
    let missing = client.request(
        "resources/read",
        json!({ "uri": "avfs://project%2Ftask-1/nothing" }),
    );
    assert_eq!(missing["error"]["code"], -32002, "{missing}");
}

#[test]
fn a_subscriber_is_told_of_changes_by_tools_commands_and_people() {
    let sandbox = project();
    let mut client = Client::start(&sandbox, &[]);
    client.good("status", json!({}));
    let uri = "avfs://project%2Ftask-1/notes.txt";
    client.request("resources/subscribe", json!({ "uri": uri }));
    client.good("write", json!({ "path": "notes.txt", "content": "tool\n" }));
    assert_eq!(
        client.notification("notifications/resources/updated")["params"]["uri"],
        uri
    );
    client.run("echo command >notes.txt");
    client.notification("notifications/resources/updated");
    sandbox.good("write /notes.txt person");
    client.notification("notifications/resources/updated");
    client.request("resources/unsubscribe", json!({ "uri": uri }));
    client.notifications.clear();
    client.good("write", json!({ "path": "notes.txt", "content": "later\n" }));
    client.good("status", json!({}));
    assert!(client.notifications.is_empty(), "{:?}", client.notifications);
}

#[test]
fn a_newer_client_listens() {
    let sandbox = project();
    let mut client = Client::start_with(&sandbox, &[], NEW, json!({}));
    client.good("status", json!({}));
    let uri = "avfs://project%2Ftask-1/notes.txt";
    client.begin(
        "subscriptions/listen",
        json!({ "notifications": { "resourceSubscriptions": [uri] } }),
    );
    client.notification("notifications/subscriptions/acknowledged");
    client.good("write", json!({ "path": "notes.txt", "content": "new\n" }));
    assert_eq!(
        client.notification("notifications/resources/updated")["params"]["uri"],
        uri
    );
}
