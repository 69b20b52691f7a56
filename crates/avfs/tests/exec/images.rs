//! Sandboxes on images: another root directory around the workspace, which keeps what is installed in it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::program::end_of;
use crate::rootfs::rootfs;
use crate::runs::{Runs, outside};

/// The image `small`, with these texts in its configuration.
pub fn with_image(config: &str) -> Runs {
    let runs = Runs::new();
    let root = rootfs(&runs.path(""));
    let place = runs.path("saved");
    fs::create_dir(&place).unwrap();
    let shown = |path: &Path| path.display().to_string();
    outside(&format!(
        "tar -C {} -cf {}/layer.tar .",
        shown(&root),
        shown(&place)
    ));
    let digest = outside(&format!("sha256sum <{}/layer.tar", shown(&place)));
    let digest = digest.split(' ').next().unwrap();
    fs::write(
        place.join("config.json"),
        format!(
            r#"{{"architecture":"amd64","os":"linux","config":{config},"rootfs":{{"diff_ids":["sha256:{digest}"]}}}}"#
        ),
    )
    .unwrap();
    let manifest = r#"[{"Config":"config.json","RepoTags":["small:1"],"Layers":["layer.tar"]}]"#;
    fs::write(place.join("manifest.json"), manifest).unwrap();
    let archive = runs.path("small.tar");
    outside(&format!(
        "tar -C {} -cf {} manifest.json config.json layer.tar",
        shown(&place),
        shown(&archive)
    ));
    runs.avfs(&["image", "import", &shown(&archive), "--name", "small"]);
    runs
}

const ON: [&str; 2] = ["--image", "small"];

#[test]
fn a_command_sees_the_root_directory_of_the_image_and_its_workspace() {
    let runs = with_image(r#"{"Env":["GREETING=hello there","PATH=/bin"]}"#);
    assert_eq!(runs.prints(&ON, "cat /etc/os-release"), "ID=small\n");
    assert_ne!(outside("cat /etc/os-release"), "ID=small\n");
    assert_eq!(runs.prints(&ON, "pwd; id -u"), "/workspace\n0\n");
    assert_eq!(
        runs.prints(&ON, "echo $GREETING, $HOME, ${PATH%%:*}"),
        "hello there, /root, /bin\n"
    );
    // Nothing of this machine, not even its users' directories.
    assert_eq!(
        runs.prints(&ON, "ls /usr /var /opt 2>/dev/null; ls /"),
        "bin\ndev\netc\nhome\nlib\nlib64\nproc\nrun\nsrv\ntmp\nworkspace\n"
    );
    let answer = runs.free(&ON, "echo text > file");
    assert_eq!(answer.changes(), ["added /file"]);
}

#[test]
fn installed_files_stay_show_in_diff_and_become_an_image() {
    let runs = with_image("{}");
    runs.prints(&ON, "mkdir /opt && echo 1.0 > /opt/tool && rm /srv -r");
    assert_eq!(runs.prints(&ON, "cat /opt/tool"), "1.0\n");
    let differs = runs.avfs(&["diff", "--vault", "work.small", "--stat", "small:", "@"]);
    assert!(
        differs.contains("opt/tool") && !differs.contains("os-release"),
        "{differs}"
    );
    // The image itself is as it was.
    let of_image = runs.avfs(&["ls", "--vault", "small", "/"]);
    assert!(
        !of_image.contains("opt") && of_image.contains("srv"),
        "{of_image}"
    );
    runs.avfs(&["image", "save", "work.small", "small-with-tool"]);
    runs.avfs(&["vault", "create", "other"]);
    let seen = runs.exec(&[
        "--vault",
        "other",
        "--image",
        "small-with-tool",
        "--",
        "cat",
        "/opt/tool",
    ]);
    assert_eq!(seen.stdout(), "1.0\n");
    // And what goes wrong is undone.
    runs.avfs(&["undo", "--vault", "work.small"]);
    assert_eq!(runs.free(&ON, "cat /opt/tool").status, 1);
}

#[test]
fn a_run_that_only_reads_or_is_told_so_changes_nothing_in_the_root_directory() {
    let runs = with_image("{}");
    assert_ne!(
        runs.free(&["--read-only", "--image", "small"], "touch /new")
            .status,
        0
    );
    assert_ne!(
        runs.free(&["--read-only-root", "--image", "small"], "touch /new")
            .status,
        0
    );
    // The workspace is another matter.
    let answer = runs.free(&["--read-only-root", "--image", "small"], "touch new");
    assert_eq!(answer.changes(), ["added /new"]);
    assert_eq!(runs.prints(&ON, "touch /new && ls /new"), "/new\n");
}

#[test]
fn without_a_command_the_image_says_what_is_run_as_whom_and_where() {
    let runs = with_image(
        r#"{"Entrypoint":["bash","-c"],"Cmd":["pwd; id -u; id -g; echo $HOME"],"User":"app","WorkingDir":"/srv"}"#,
    );
    let policy = runs.path("everything.toml").display().to_string();
    let answer = runs.exec(&["--policy", &policy, "--image", "small"]);
    assert_eq!(
        answer.stdout(),
        "/srv\n1234\n5678\n/home/app\n",
        "{:#}",
        answer.value
    );
}

#[test]
fn run_on_an_image_has_an_unprivileged_user_outside() {
    let runs = with_image("{}");
    let map = runs.prints(&ON, "cat /proc/self/uid_map");
    let outer = map.split_whitespace().nth(1).unwrap();
    assert_ne!(outer, "0", "{map}");
    // What it writes belongs to it inside, and a device cannot be made.
    assert_eq!(
        runs.prints(
            &ON,
            "touch /owned && ls -n /owned | { read a b owner rest; echo $owner; }"
        ),
        "0\n"
    );
}

#[test]
fn an_image_that_cannot_be_a_root_directory_is_refused() {
    let runs = Runs::new();
    let root = rootfs(&runs.path(""));
    symlink("/etc", root.join("run")).unwrap();
    runs.avfs(&["image", "import", &root.display().to_string(), "--name", "small"]);
    let answer = runs.free(&ON, "true");
    assert_eq!(answer.error_code(), "unusable-image", "{:#}", answer.value);
    let unknown = runs.free(&["--image", "smal"], "true");
    assert_eq!(unknown.error_code(), "unknown-image", "{:#}", unknown.value);
}

#[test]
fn an_image_without_the_loader_of_the_first_program_says_what_to_do() {
    let runs = Runs::new();
    let root = runs.path("empty");
    fs::create_dir_all(root.join("etc")).unwrap();
    fs::write(root.join("etc/name"), "x").unwrap();
    runs.avfs(&["image", "import", &root.display().to_string(), "--name", "small"]);
    let answer = runs.free(&ON, "true");
    assert_eq!(answer.error_code(), "unusable-image", "{:#}", answer.value);
    let message = answer.value["error"]["message"].as_str().unwrap();
    assert!(message.contains("/lib64/ld-linux"), "{message}");
}

#[test]
fn a_session_on_an_image_is_a_shell_in_it() {
    let runs = with_image("{}");
    let policy = runs.path("everything.toml").display().to_string();
    let id = runs.avfs(&["session", "start", "--image", "small", "--policy", &policy]);
    let id = id.trim();
    let words = [
        "session",
        "exec",
        id,
        "-c",
        "cat /etc/os-release; echo 2.0 > /srv/version",
    ];
    assert_eq!(runs.avfs(&words), "ID=small\n");
    runs.avfs(&["session", "stop", id]);
    assert_eq!(
        runs.avfs(&["cat", "--vault", "work.small", "/srv/version"]),
        "2.0\n"
    );
}

#[test]
fn the_root_directories_of_a_vault_go_with_it() {
    let runs = with_image("{}");
    runs.avfs(&["vault", "create", "other"]);
    runs.exec(&["--vault", "other", "--image", "small", "--", "touch", "/new"]);
    assert!(runs.avfs(&["vault", "list"]).contains("other.small"));
    runs.avfs(&["vault", "delete", "other", "--yes"]);
    let left = runs.avfs(&["vault", "list"]);
    assert!(!left.contains("other") && left.contains("small"), "{left}");
}

#[test]
fn skopeo_brings_an_image_from_wherever_it_can() {
    let runs = with_image(r#"{"Env":["GREETING=hello"]}"#);
    let source = format!("docker-archive:{}", runs.path("small.tar").display());
    runs.avfs(&["image", "pull", &source, "--name", "pulled"]);
    // The same tree, and what the image says of itself.
    assert_eq!(runs.avfs(&["diff", "--vault", "pulled", "small:", "@"]), "");
    assert!(runs.avfs(&["image", "show", "pulled"]).contains("GREETING=hello"));
    let mut without = runs.ground.command(&["image", "pull", &source, "--json"]);
    without.env("PATH", "/nowhere");
    let said = String::from_utf8(end_of(without, b"").out).unwrap();
    assert!(said.contains("\"no-skopeo\""), "{said}");
}
