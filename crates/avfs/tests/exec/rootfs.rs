//! The root directory of a small system: programs of this machine with the libraries that they need.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The programs of the image: those of the scripts below, and what the first program of a sandbox links to.
const PROGRAMS: [&str; 9] = ["bash", "cat", "id", "ls", "mkdir", "rm", "sleep", "sync", "touch"];

/// A root directory.
pub fn rootfs(place: &Path) -> PathBuf {
    let root = place.join("rootfs");
    for directory in ["bin", "etc", "home/app", "srv"] {
        fs::create_dir_all(root.join(directory)).unwrap();
    }
    for name in PROGRAMS {
        copy(&says(&format!("command -v {name}")), &root.join("bin").join(name));
    }
    symlink("bash", root.join("bin/sh")).unwrap();
    for library in libraries() {
        copy(&library, &root.join(&library[1..]));
    }
    fs::write(root.join("etc/os-release"), "ID=small\n").unwrap();
    fs::write(
        root.join("etc/passwd"),
        "root:x:0:0::/root:/bin/sh\napp:x:1234:5678::/home/app:/bin/sh\n",
    )
    .unwrap();
    root
}

fn copy(from: &str, to: &Path) {
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    fs::copy(from.trim(), to).unwrap();
}

/// The absolute paths of shared libraries, and of the loader.
fn libraries() -> BTreeSet<String> {
    let own = assert_cmd::cargo::cargo_bin!("avfs").display().to_string();
    let listed = PROGRAMS.map(|name| says(&format!("ldd $(command -v {name})")));
    let all = [listed.concat(), says(&format!("ldd {own}; true"))].concat();
    let words = all.split_whitespace().filter(|word| word.starts_with('/'));
    words
        .map(|word| word.trim_end_matches(':').to_owned())
        .filter(|path| path.contains(".so"))
        .collect()
}

fn says(script: &str) -> String {
    let output = Command::new("/bin/bash").args(["-c", script]).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}
