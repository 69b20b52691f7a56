//! Files that programs of the host run, or that tell them what to run, without a request of the user: the
//! user should have seen them before they are applied.

use avfs_core::TreePath;
use avfs_core::spelling::folded;

/// A file that is pointed out before it is applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pointed {
    /// Its path in the directory.
    pub path: TreePath,
    /// What runs it, for people.
    pub reason: &'static str,
}

/// How a path of the table is compared. Spellings that some hosts do not distinguish count as equal.
enum PathPattern {
    /// The last component, at any depth.
    Name(&'static str),
    /// The end of the last component.
    Suffix(&'static str),
    /// The beginning of the last component, of a file with settings or a program.
    Prefix(&'static str),
    /// These components next to each other, at any depth, with something below them or at the end.
    Part(&'static [&'static str]),
}

use PathPattern::{Name, Part, Prefix, Suffix};

/// The suffixes of files to which a [`PathPattern::Prefix`] applies.
const ENDINGS: [&[u8]; 3] = [b".toml", b".py", b".json"];

const TABLE: &[(PathPattern, &str)] = &[
    (Part(&[".husky"]), "git runs it as a hook"),
    (Part(&[".githooks"]), "git may run it as a hook"),
    (Part(&[".git-hooks"]), "git may run it as a hook"),
    (Name(".overcommit.yml"), "overcommit runs what it names"),
    (Part(&[".lefthook"]), "lefthook runs it as a hook"),
    (Part(&[".lefthook-local"]), "lefthook runs it as a hook"),
    (Name("lefthook-local.yml"), "lefthook runs what it names"),
    (Name(".huskyrc"), "husky runs what it names"),
    (Part(&[".hg"]), "Mercurial runs what its settings name"),
    (Part(&[".jj"]), "jj runs what its settings name"),
    (Part(&[".sl"]), "Sapling runs what its settings name"),
    (Part(&[".pijul"]), "Pijul runs what its settings name"),
    (Part(&[".bzr"]), "Breezy runs what its settings name"),
    (Part(&[".svn"]), "it is Subversion's own"),
    (Part(&["_darcs"]), "darcs runs what its settings name"),
    (
        Part(&["CVS"]),
        "it says where cvs finds its repository, and by which program",
    ),
    (Name(".pre-commit-config.yaml"), "pre-commit runs what it names"),
    (Name("lefthook.yml"), "lefthook runs what it names"),
    (Name(".lefthook.yml"), "lefthook runs what it names"),
    (Name("lefthook.yaml"), "lefthook runs what it names"),
    (Name(".lefthook.yaml"), "lefthook runs what it names"),
    (
        Name(".gitattributes"),
        "it names filters and merge drivers that git runs",
    ),
    (Name(".gitmodules"), "it says from where git fetches submodules"),
    (Part(&[".github", "workflows"]), "the CI server runs it"),
    (Part(&[".github", "actions"]), "the CI server runs it"),
    (Name(".gitlab-ci.yml"), "the CI server runs it"),
    (Name("Jenkinsfile"), "the CI server runs it"),
    (Part(&[".circleci"]), "the CI server runs it"),
    (Part(&[".buildkite"]), "the CI server runs it"),
    (
        Part(&[".vscode", "tasks.json"]),
        "the editor can run its tasks when the folder is opened",
    ),
    (Part(&[".vscode", "launch.json"]), "the editor runs what it names"),
    (
        Part(&[".vscode", "settings.json"]),
        "it can name programs that the editor runs",
    ),
    (Part(&[".idea"]), "the editor runs what it names"),
    (Part(&[".zed", "tasks.json"]), "the editor runs what it names"),
    (
        Name(".nvim.lua"),
        "the editor can run it when the folder is opened",
    ),
    (Name(".exrc"), "the editor can run it when the folder is opened"),
    (
        Name(".dir-locals.el"),
        "the editor can run it when a file is opened",
    ),
    (
        Name(".dir-locals-2.el"),
        "the editor can run it when a file is opened",
    ),
    (
        Part(&[".vscode", "c_cpp_properties.json"]),
        "it can name programs that the editor runs",
    ),
    (Part(&[".helix"]), "it can name programs that the editor runs"),
    (
        Part(&[".devcontainer"]),
        "it sets up containers with commands of its own",
    ),
    (Name(".mcp.json"), "agents start the servers that it names"),
    (Part(&[".claude"]), "agents run its hooks, commands and settings"),
    (
        Part(&[".cursor"]),
        "agents follow its rules and start its servers",
    ),
    (Part(&[".codex"]), "agents follow its settings"),
    (Part(&[".gemini"]), "agents follow its settings"),
    (Part(&[".qwen"]), "agents follow its settings"),
    (Part(&[".amp"]), "agents follow its settings"),
    (Part(&[".continue"]), "agents follow its settings"),
    (Part(&[".kiro"]), "agents run its hooks and start its servers"),
    (Part(&[".roo"]), "agents follow its rules and start its servers"),
    (Part(&[".opencode"]), "agents run its plugins, commands and tools"),
    (Name("opencode.json"), "agents run what it names"),
    (Name("opencode.jsonc"), "agents run what it names"),
    (Name(".aider.conf.yml"), "agents run what it names"),
    (Part(&[".github", "hooks"]), "agents run its hooks"),
    (Name("crush.json"), "agents run what it names"),
    (Name(".crush.json"), "agents run what it names"),
    (Part(&[".clinerules", "hooks"]), "agents run its hooks"),
    (Part(&[".clinerules"]), "agents follow what it says"),
    (Name(".cursorrules"), "agents follow what it says"),
    (Name(".windsurfrules"), "agents follow what it says"),
    (
        Part(&[".github", "copilot-instructions.md"]),
        "agents follow what it says",
    ),
    (Name("CLAUDE.md"), "agents follow what it says"),
    (Name("AGENTS.md"), "agents follow what it says"),
    (Name("GEMINI.md"), "agents follow what it says"),
    (Name(".envrc"), "direnv runs it when the directory is entered"),
    (
        Part(&[".mise"]),
        "mise runs what it names when the directory is entered",
    ),
    (
        Prefix("mise."),
        "mise runs what it names when the directory is entered",
    ),
    (
        Prefix(".mise."),
        "mise runs what it names when the directory is entered",
    ),
    (
        Name(".tool-versions"),
        "it chooses the programs that run in the directory",
    ),
    (
        Name(".autoenv.zsh"),
        "the shell can run it when the directory is entered",
    ),
    (Name(".bashrc"), "a shell runs it when it starts"),
    (Name(".bash_profile"), "a shell runs it when it starts"),
    (Name(".profile"), "a shell runs it when it starts"),
    (Name(".zshrc"), "a shell runs it when it starts"),
    (Name(".zshenv"), "a shell runs it when it starts"),
    (Name("config.fish"), "a shell runs it when it starts"),
    (Name(".Rprofile"), "R runs it when it starts"),
    (Name(".Renviron"), "R takes its environment from it"),
    (Name(".ghci"), "ghci runs it when it starts"),
    (Name(".ocamlinit"), "OCaml runs it when its shell starts"),
    (Name(".iex.exs"), "Elixir runs it when its shell starts"),
    (Prefix("jupyter_"), "Jupyter runs it when it starts"),
    (Name(".irbrc"), "ruby runs it when its shell starts"),
    (Name(".pryrc"), "ruby runs it when its shell starts"),
    (
        Name("package.json"),
        "npm runs its scripts, some of them on install",
    ),
    (
        Name(".npmrc"),
        "it says from where npm fetches packages and what it runs",
    ),
    (Name(".yarnrc"), "it names programs that yarn runs"),
    (Name(".yarnrc.yml"), "it names programs that yarn runs"),
    (Part(&[".yarn", "releases"]), "yarn is started from it"),
    (Part(&[".yarn", "plugins"]), "yarn runs it"),
    (Name(".pnpmfile.cjs"), "pnpm runs it on install"),
    (
        Name(".pnp.cjs"),
        "node runs it before every program of the project",
    ),
    (
        Name(".pnp.loader.mjs"),
        "node runs it before every program of the project",
    ),
    (Name("binding.gyp"), "npm builds what it says on install"),
    (Name("build.rs"), "cargo runs it when it builds"),
    (
        Part(&[".cargo", "config.toml"]),
        "it names programs that cargo runs",
    ),
    (Part(&[".cargo", "config"]), "it names programs that cargo runs"),
    (Name("rust-toolchain.toml"), "it chooses the compiler"),
    (Name("setup.py"), "pip runs it on install"),
    (Name("conftest.py"), "pytest runs it before any test"),
    (Name("sitecustomize.py"), "python runs it when it starts"),
    (Name("usercustomize.py"), "python runs it when it starts"),
    (Suffix(".pth"), "python can run its lines when it starts"),
    (Name("noxfile.py"), "nox runs it"),
    (Name("Makefile"), "make runs its recipes"),
    (Name("GNUmakefile"), "make runs its recipes"),
    (Name("justfile"), "just runs its recipes"),
    (Name("Rakefile"), "rake runs it"),
    (Name("CMakeLists.txt"), "cmake runs what it names"),
    (Name("build.gradle"), "gradle runs it when it builds"),
    (Name("build.gradle.kts"), "gradle runs it when it builds"),
    (Name("gradlew"), "gradle is started by it"),
    (Name("gradlew.bat"), "gradle is started by it"),
    (Part(&["gradle", "wrapper"]), "gradle is started by it"),
    (Name("settings.gradle"), "gradle runs it when it builds"),
    (Name("settings.gradle.kts"), "gradle runs it when it builds"),
    (Part(&["gradle", "init.d"]), "gradle runs it when it builds"),
    (Name("mvnw"), "maven is started by it"),
    (Part(&[".mvn"]), "maven follows its settings"),
    (Name("flake.nix"), "nix builds and runs what it says"),
    (Name("shell.nix"), "nix builds and runs what it says"),
    (Name("Vagrantfile"), "vagrant runs it"),
    (Name(".gdbinit"), "gdb runs it when it starts"),
    (Name(".lldbinit"), "lldb runs it when it starts"),
];

/// Why a file is pointed out, if it is. `became_executable`: it can be run, and could not before.
pub(super) fn reason(path: &TreePath, became_executable: bool) -> Option<&'static str> {
    let names: Vec<Vec<u8>> = path.components().map(|name| folded(name.as_bytes())).collect();
    let row = TABLE.iter().find(|(place, _)| place.covers(&names));
    row.map(|(_, reason)| *reason)
        .or(became_executable.then_some("it became executable"))
}

impl PathPattern {
    fn covers(&self, names: &[Vec<u8>]) -> bool {
        let is = |name: &Vec<u8>, word: &str| name == &word.to_ascii_lowercase().into_bytes();
        match self {
            Name(word) => names.last().is_some_and(|name| is(name, word)),
            Suffix(end) => names.last().is_some_and(|name| name.ends_with(end.as_bytes())),
            Prefix(start) => names.last().is_some_and(|name| {
                name.starts_with(start.as_bytes()) && ENDINGS.iter().any(|ending| name.ends_with(ending))
            }),
            Part(words) => names
                .windows(words.len())
                .any(|window| window.iter().zip(*words).all(|(name, word)| is(name, word))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, became_executable: bool, expected: Option<&str>) {
        assert_eq!(
            reason(&TreePath::parse(path.as_bytes()).unwrap(), became_executable),
            expected
        );
    }

    #[test]
    fn files_that_programs_run_by_themselves_are_pointed_out() {
        check(
            "web/package.json",
            false,
            Some("npm runs its scripts, some of them on install"),
        );
        check(".husky/pre-commit", false, Some("git runs it as a hook"));
        check(".github/workflows/ci.yml", false, Some("the CI server runs it"));
        check(
            "a/.vscode/tasks.json",
            false,
            Some("the editor can run its tasks when the folder is opened"),
        );
        check(
            "lib/evil.pth",
            false,
            Some("python can run its lines when it starts"),
        );
        check("makefile", false, Some("make runs its recipes"));
        check(".lefthook.yml", false, Some("lefthook runs what it names"));
        check(
            ".pnp.cjs",
            false,
            Some("node runs it before every program of the project"),
        );
        check(".cursorrules", false, Some("agents follow what it says"));
        check("run.sh", true, Some("it became executable"));
        check(".yarnrc", false, Some("it names programs that yarn runs"));
        check(
            "gradle/wrapper/gradle-wrapper.jar",
            false,
            Some("gradle is started by it"),
        );
        for name in ["mise.toml", ".mise.toml", "a/mise.test.toml", ".mise/tasks/x"] {
            let reason = "mise runs what it names when the directory is entered";
            check(name, false, Some(reason));
        }
        check(
            ".v\u{200c}scode/Tasks.json.",
            false,
            Some("the editor can run its tasks when the folder is opened"),
        );
    }

    #[test]
    fn the_rest_is_not() {
        check("run.sh", false, None);
        check(".github/README.md", false, None);
        check("docs/package.json.md", false, None);
        check("vscode/tasks.json", false, None);
        check("jupyter_helpers.rs", false, None);
        check("promise.toml", false, None);
    }
}
