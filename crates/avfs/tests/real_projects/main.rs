//! Projects that people have, made from the package registries by `scripts/real-projects`, each walked through from the
//! first run to the last undo by root and by two ordinary users.
//!
//! Needs `/dev/fuse`, bubblewrap, root, and the compilers and interpreters of the projects.
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

mod scene;
mod walk;

use scene::{Scene, User};
use walk::{Project, walk};

const REACT: Project = Project {
    directory: "react",
    test: "npm test --silent",
    edit: "sed -i 's/Hello, {name}/Good morning, {name}/' src/Greeting.jsx
        sed -i 's/Hello, Ada/Good morning, Ada/' src/Greeting.test.jsx
        npm run --silent build",
    edited: &["src/Greeting.jsx", "src/Greeting.test.jsx"],
    hidden: &[".env"],
    shown: &[".env.development"],
    rebuilt: "",
};

const FLASK: Project = Project {
    directory: "flask",
    test: ". .venv/bin/activate && pytest --quiet",
    edit: "sed -i 's/\"hello\"/\"good morning\"/' app.py tests/test_app.py; echo 'def more(): pass' >more.py",
    edited: &["app.py", "more.py", "tests/test_app.py"],
    hidden: &[".env", "deploy/server.key"],
    shown: &[
        ".env.test",
        "credentials.py",
        "tests/certs/server.key",
        "tests/certs/server.pem",
    ],
    rebuilt: "",
};

const CRATE: Project = Project {
    directory: "crate",
    test: "cargo test --offline",
    edit: "echo '// counted' >>src/main.rs; git mv notes/1.md notes/first.md",
    edited: &["notes/1.md", "notes/first.md", "src/main.rs"],
    hidden: &[],
    shown: &[],
    rebuilt: "Compiling",
};

const GREET: Project = Project {
    directory: "greet",
    test: "make test",
    edit: "sed -i 's/hello, /good morning, /' greet/*.go; echo '/* twice */' >>native/twice.c",
    edited: &["greet/greet.go", "greet/greet_test.go", "native/twice.c"],
    hidden: &[],
    shown: &[],
    rebuilt: "cc -o",
};

const MONOREPO: Project = Project {
    directory: "monorepo",
    test: "npm test --silent",
    edit: "echo '// tested' >>packages/app/test.mjs",
    edited: &["packages/app/test.mjs"],
    hidden: &[],
    shown: &["packages/shared/index.mjs"],
    rebuilt: "",
};

const WORKTREE: Project = Project {
    directory: "monorepo-side",
    ..MONOREPO
};

macro_rules! walks {
    ($($name:ident: $project:ident,)*) => {
        $(mod $name {
            use super::{$project, Scene, User, walk};

            #[test]
            fn by_root() {
                walk(&Scene::new(User::ROOT), &$project);
            }

            #[test]
            fn by_user_1000() {
                walk(&Scene::new(User::FIRST), &$project);
            }

            #[test]
            fn by_user_1001() {
                walk(&Scene::new(User::SECOND), &$project);
            }
        })*
    };
}

walks! {
    react: REACT,
    flask: FLASK,
    a_crate: CRATE,
    go_and_c: GREET,
    monorepo: MONOREPO,
    worktree: WORKTREE,
}
