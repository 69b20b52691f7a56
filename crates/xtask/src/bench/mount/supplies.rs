//! The inputs of the steps: an archive, a repository, a workspace. Created once, always the same.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::shell;
use crate::bench::fixture;

pub struct Supplies {
    /// An archive of a tree like a project's sources: 4,000 files, most of them small.
    pub archive: PathBuf,
    /// A repository with that tree.
    pub repository: PathBuf,
    /// A cargo workspace without dependencies.
    pub workspace: PathBuf,
}

pub const FILES: usize = 4_000;

impl Supplies {
    pub fn make(dir: &Path) -> Result<Supplies> {
        let place = dir.join("supplies-1");
        let supplies = Supplies {
            archive: place.join("tree.tar"),
            repository: place.join("repository.git"),
            workspace: place.join("workspace"),
        };
        if !place.join("done").exists() {
            _ = fs::remove_dir_all(&place);
            fs::create_dir_all(&place)?;
            tree(&place.join("tree"))?;
            workspace(&supplies.workspace)?;
            shell(&place, PACK)?;
            fs::write(place.join("done"), "")?;
        }
        Ok(supplies)
    }

    /// Loads the programs themselves into memory, so that the first target does not pay for it.
    pub fn warm_up(&self) -> Result<()> {
        let script = "rm -rf target; cargo build -q --offline; rm -rf target; git --version; grep -r f3 app";
        shell(&self.workspace, script).map(|_| ())
    }
}

const PACK: &str = "
    tar -cf tree.tar --sort=name --mtime=@1000000000 --owner=0 --group=0 --numeric-owner tree
    export GIT_AUTHOR_DATE='1000000000 +0000' GIT_COMMITTER_DATE='1000000000 +0000'
    git() { command git -c user.name=bench -c user.email=bench@example.org -c gc.auto=0 \"$@\"; }
    git init -q -b main repository
    for part in tree/d0 tree/d1 tree/d2 tree; do
        mkdir -p repository/$part
        cp -r $part/. repository/$part
        git -C repository add -A
        git -C repository commit -qm \"$part\"
    done
    git clone -q --bare repository repository.git
    rm -rf repository tree";

/// Forty directories of a hundred files; one in ten is large.
fn tree(top: &Path) -> Result<()> {
    for index in 0..FILES {
        let parent = top.join(format!("d{}/e{}", index % 5, index / 5 % 8));
        fs::create_dir_all(&parent)?;
        let length = match index % 10 {
            9 => 20_000 + index * 7 % 20_000,
            _ => 200 + index * 131 % 6_000,
        };
        fs::write(
            parent.join(format!("file{index}.rs")),
            fixture::file_bytes(index, length),
        )?;
    }
    Ok(())
}

/// A program over twenty libraries of many functions each.
fn workspace(top: &Path) -> Result<()> {
    let write = |name: String, text: String| -> Result<()> {
        let path = top.join(name);
        fs::create_dir_all(path.parent().unwrap_or(top))?;
        Ok(fs::write(path, text)?)
    };
    let package =
        |name: &str| format!("[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n");
    let mut needs = package("app") + "[dependencies]\n";
    let mut sum = String::from("0");
    for index in 0..20 {
        let name = format!("part{index}");
        let functions =
            (0..40).map(|number| format!("pub fn f{number}(x: u64) -> u64 {{ x * {number} + {index} }}\n"));
        write(format!("{name}/src/lib.rs"), functions.collect())?;
        write(format!("{name}/Cargo.toml"), package(&name))?;
        needs += &format!("{name} = {{ path = \"../{name}\" }}\n");
        sum += &format!(" + {name}::f3({index})");
    }
    write(
        "app/src/main.rs".into(),
        format!("fn main() {{\n    println!(\"{{}}\", {sum});\n}}\n"),
    )?;
    write("app/Cargo.toml".into(), needs)?;
    write(
        "Cargo.toml".into(),
        "[workspace]\nresolver = \"3\"\nmembers = [\"app\", \"part*\"]\n".into(),
    )
}
