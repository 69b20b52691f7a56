//! `avfs setup`: the settings of agents, and what was there before.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::{Value, json};

use crate::sandbox::Sandbox;

/// Settings with a comment, as a person leaves them.
const SETTINGS: [(&str, &str, &str); 5] = [
    (
        "cursor",
        ".cursor/mcp.json",
        "{\n    \"mcpServers\": {\n        \"mine\": { \"command\": \"m\" }\n    }\n}\n",
    ),
    (
        "zed",
        ".config/zed/settings.json",
        "// Zed\n{\n  \"theme\": \"One\", // dark\n  \"context_servers\": {\n    // mine\n    \"mine\": { \"command\": \"m\" },\n  },\n}\n",
    ),
    (
        "opencode",
        ".config/opencode/opencode.jsonc",
        "{\n  /* first */\n  \"model\": \"x\"\n}\n",
    ),
    (
        "codex",
        ".codex/config.toml",
        "# mine\nmodel = \"x\"\n\n[mcp_servers.mine]\ncommand = \"m\" # keep\n",
    ),
    (
        "goose",
        ".config/goose/config.yaml",
        "# mine\nGOOSE_MODEL: x\nextensions:\n  developer:\n    enabled: true\n",
    ),
];

#[test]
fn removal_restores_each_file_to_the_byte_and_keeps_foreign_settings() {
    for (agent, file, text) in SETTINGS {
        let sandbox = Sandbox::new();
        let file = sandbox.path("home").join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        let shown = sandbox.good(&format!("setup {agent} --dry-run"));
        assert!(shown.contains("+ ") && shown.contains("agentvfs"), "{shown}");
        assert_eq!(
            fs::read_to_string(&file).unwrap(),
            text,
            "{agent}: a dry run changes nothing"
        );
        assert_eq!(status(&sandbox, &format!("setup {agent} --check")), 1);
        sandbox.good(&format!("setup {agent} --yes"));
        let set_up = fs::read_to_string(&file).unwrap();
        for line in text
            .lines()
            .filter(|line| line.contains("mine") || line.contains("//") || line.contains("/*"))
        {
            assert!(set_up.contains(line), "{agent}: {line}\n{set_up}");
        }
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(status(&sandbox, &format!("setup {agent} --check")), 0);
        // A second time there is nothing to do.
        sandbox.good(&format!("setup {agent} --yes"));
        assert_eq!(fs::read_to_string(&file).unwrap(), set_up);
        sandbox.good(&format!("setup {agent} --remove --yes"));
        assert_eq!(fs::read_to_string(&file).unwrap(), text, "{agent}");
    }
}

#[test]
fn remove_leaves_each_file_and_directory_that_was_there_as_it_was() {
    let own = [
        (
            "zed",
            ".config/zed/settings.json",
            "{\n  \"context_servers\": {\n    // my servers\n    // \"pg\": { \"command\": \"pg-mcp\" }\n  }\n}\n",
        ),
        (
            "opencode",
            ".config/opencode/opencode.json",
            "{ \"mcp\": { /* later */ } }",
        ),
        ("windsurf", ".codeium/windsurf/mcp_config.json", "{}"),
        ("cursor", ".cursor/mcp.json", ""),
        ("copilot", ".copilot/mcp-config.json", "{\"mcpServers\":{}}"),
        ("claude", ".claude.json", "{\"projects\": {}, \"a\": [1,2]}"),
        (
            "claude",
            ".claude/settings.json",
            "{\"hooks\":{\"Stop\":[]},\"model\":\"x\"}",
        ),
        ("codex", ".codex/config.toml", "[mcp_servers]"),
        ("goose", ".config/goose/config.yaml", "extensions:"),
    ];
    let sandbox = Sandbox::new();
    for (_, file, text) in own {
        let file = sandbox.path("home").join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, text).unwrap();
    }
    // No file in it, but the agent is known by it.
    fs::create_dir_all(sandbox.path("home/.kiro")).unwrap();
    let agents = "zed opencode windsurf cursor copilot claude codex goose kiro";
    sandbox.good(&format!("setup {agents} --yes"));
    sandbox.good("setup claude --hooks --yes");
    sandbox.good("setup claude --worktrees --skill --yes");
    assert_eq!(status(&sandbox, "setup claude --check"), 0);
    sandbox.good("setup claude --remove --worktrees --yes");
    assert_eq!(status(&sandbox, "setup claude --hooks --check"), 0);
    sandbox.good(&format!("setup {agents} --remove --yes"));
    for (agent, file, text) in own {
        let now = fs::read_to_string(sandbox.path("home").join(file));
        assert_eq!(now.as_deref().ok(), Some(text), "{agent} {file}");
    }
    assert!(sandbox.path("home/.kiro").is_dir());
    assert!(!sandbox.path("home/.kiro/settings").exists());
    assert!(!sandbox.path("home/.claude/skills").exists());
}

#[test]
fn remove_keeps_what_other_programs_wrote_after_setup() {
    let sandbox = Sandbox::new();
    let file = sandbox.path("home/.cursor/mcp.json");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, "{ \"mcpServers\": { /* later */ } }").unwrap();
    sandbox.good("setup cursor --yes");
    let set_up = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("// mine\n{set_up}\n")).unwrap();
    sandbox.good("setup cursor --remove --yes");
    assert_eq!(
        fs::read_to_string(&file).unwrap(),
        "// mine\n{ \"mcpServers\": { /* later */ } }\n"
    );
    // The agent writes its own settings anew.
    sandbox.good("setup cursor --yes");
    let whole: Value =
        json!({ "mcpServers": { "agentvfs": { "command": "avfs", "args": ["mcp"] } }, "x": 1 });
    fs::write(&file, whole.to_string()).unwrap();
    sandbox.good("setup cursor --remove --yes");
    let left: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(left, json!({ "mcpServers": {}, "x": 1 }));
}

#[test]
fn flags_about_agents_need_an_agent_that_supports_them() {
    let sandbox = Sandbox::new();
    for line in [
        "setup --check",
        "setup --remove",
        "setup --dry-run",
        "setup zed --hooks",
        "setup windsurf --project",
    ] {
        assert_eq!(status(&sandbox, line), 2, "{line}");
    }
    let output = sandbox.avfs().args(["setup", "zed", "--hooks"]).output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("it supports --mcp"), "{told}");
}

#[test]
fn a_check_sees_hooks_that_were_set_up_and_are_gone() {
    let sandbox = Sandbox::new();
    sandbox.good("setup claude --mcp --hooks --yes");
    assert_eq!(status(&sandbox, "setup claude --check"), 0);
    fs::write(sandbox.path("home/.claude/settings.json"), "{}\n").unwrap();
    assert_eq!(status(&sandbox, "setup claude --check"), 1);
}

#[test]
fn a_broken_file_of_one_agent_does_not_stop_the_others() {
    let sandbox = Sandbox::new();
    for directory in [".cursor", ".kiro"] {
        fs::create_dir_all(sandbox.path("home").join(directory)).unwrap();
    }
    fs::write(sandbox.path("home/.cursor/mcp.json"), "{ broken").unwrap();
    let output = sandbox
        .avfs()
        .args(["setup", "cursor", "kiro", "--yes"])
        .output()
        .unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(
        told.contains(".cursor/mcp.json") && told.contains("kiro: mcp set up and checked"),
        "{told}"
    );
    assert_eq!(status(&sandbox, "setup kiro --check"), 0);
}

fn status(sandbox: &Sandbox, line: &str) -> i32 {
    sandbox
        .avfs()
        .args(line.split(' '))
        .output()
        .unwrap()
        .status
        .code()
        .unwrap()
}

#[test]
fn every_agent_is_set_up_from_nothing_and_leaves_nothing() {
    let sandbox = Sandbox::new();
    let agents = "claude codex gemini cursor vscode zed opencode copilot windsurf kiro goose";
    let before = files(&sandbox.path("home"));
    sandbox.good(&format!("setup {agents} --yes"));
    // One of them is the record of what was there before.
    assert_eq!(files(&sandbox.path("home")).len(), before.len() + 12);
    assert_eq!(status(&sandbox, &format!("setup {agents} --check")), 0);
    sandbox.good(&format!("setup {agents} --remove --yes"));
    assert_eq!(files(&sandbox.path("home")), before);
}

fn files(directory: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path.display().to_string());
        }
    }
    found.sort();
    found
}

#[test]
fn settings_of_a_project_have_the_forms_that_agents_read() {
    let sandbox = Sandbox::new();
    sandbox.good("setup claude vscode opencode --project --yes");
    let read = |name: &str| -> Value {
        serde_json::from_str(&fs::read_to_string(sandbox.path("project/src").join(name)).unwrap()).unwrap()
    };
    let avfs = assert_cmd::cargo::cargo_bin!("avfs").to_str().unwrap().to_owned();
    let stdio = json!({ "type": "stdio", "command": avfs, "args": ["mcp"] });
    assert_eq!(read(".mcp.json")["mcpServers"]["agentvfs"], stdio);
    assert_eq!(read(".vscode/mcp.json")["servers"]["agentvfs"], stdio);
    let local = json!({ "type": "local", "command": [avfs, "mcp"], "enabled": true });
    assert_eq!(read("opencode.json")["mcp"]["agentvfs"], local);
}

#[test]
fn hooks_stand_beside_those_of_the_user_and_a_skill_is_a_file() {
    let sandbox = Sandbox::new();
    let settings = sandbox.path("home/.claude/settings.json");
    fs::create_dir_all(settings.parent().unwrap()).unwrap();
    let own = "{\n  \"hooks\": {\n    \"Stop\": [\n      { \"hooks\": [{ \"type\": \"command\", \"command\": \"say done\" }] }\n    ]\n  }\n}\n";
    fs::write(&settings, own).unwrap();
    sandbox.good("setup claude --hooks --worktrees --skill --yes");
    let read: Value = serde_json::from_str(&fs::read_to_string(&settings).unwrap()).unwrap();
    assert_eq!(read["hooks"]["Stop"][0]["hooks"][0]["command"], "say done");
    for event in ["PreToolUse", "SessionStart", "WorktreeCreate", "WorktreeRemove"] {
        let line = read["hooks"][event][0]["hooks"][0]["command"].as_str().unwrap();
        assert!(line.contains("avfs hook "), "{event}: {line}");
    }
    assert!(sandbox.path("home/.claude/skills/agentvfs/SKILL.md").exists());
    assert_eq!(
        status(&sandbox, "setup claude --hooks --worktrees --skill --check"),
        0
    );
    sandbox.good("setup claude --remove --yes");
    assert_eq!(fs::read_to_string(&settings).unwrap(), own);
    assert!(!sandbox.path("home/.claude/skills").exists());
}

#[test]
fn an_agent_with_a_command_of_its_own_makes_the_change_itself() {
    let sandbox = Sandbox::new();
    let program = sandbox.path("home/bin/codex");
    fs::create_dir_all(program.parent().unwrap()).unwrap();
    // It writes down what it was asked for, and does it.
    let script = "#!/bin/sh\necho \"$@\" >>\"$HOME/asked\"\nmkdir -p \"$HOME/.codex\"\ncase $2 in\nadd) printf '[mcp_servers.agentvfs]\\ncommand = \"x\"\\n' >\"$HOME/.codex/config.toml\";;\nremove) rm \"$HOME/.codex/config.toml\";;\nesac\n";
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", program.parent().unwrap().display());
    let run = |line: &str| {
        let output = sandbox
            .avfs()
            .env("PATH", &path)
            .args(line.split(' '))
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(run("setup codex --dry-run").starts_with("run: codex mcp add agentvfs -- "));
    assert!(!sandbox.path("home/asked").exists());
    run("setup codex --yes");
    run("setup codex --remove --yes");
    let asked = fs::read_to_string(sandbox.path("home/asked")).unwrap();
    let avfs = assert_cmd::cargo::cargo_bin!("avfs");
    assert_eq!(
        asked,
        format!(
            "mcp add agentvfs -- {} mcp\nmcp remove agentvfs\n",
            avfs.display()
        )
    );
}

#[test]
fn settings_that_cannot_be_read_are_left_alone() {
    let sandbox = Sandbox::new();
    let file = sandbox.path("home/.cursor/mcp.json");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, "{ \"mcpServers\": ").unwrap();
    assert_eq!(sandbox.bad("setup cursor --yes"), (2, "bad-settings".into()));
    assert_eq!(fs::read_to_string(&file).unwrap(), "{ \"mcpServers\": ");
    assert_eq!(sandbox.bad("setup nobody"), (3, "unknown-agent".into()));
    // Nothing is changed without somebody who agrees.
    assert_eq!(sandbox.bad("setup zed").1, "needs-confirmation");
}

#[test]
fn the_old_words_name_the_new_ones() {
    let sandbox = Sandbox::new();
    for word in ["show", "allow"] {
        let output = sandbox.avfs().args(["setup", word]).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(told.contains(&format!("`avfs project setup {word}`")), "{told}");
    }
}

#[test]
fn plug_ins_have_the_skill_and_the_hooks_that_setup_installs() {
    let sandbox = Sandbox::new();
    sandbox.good("setup claude --hooks --worktrees --skill --yes");
    let plugins = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plugins");
    let skill = fs::read_to_string(sandbox.path("home/.claude/skills/agentvfs/SKILL.md")).unwrap();
    for copy in [
        "agentvfs/skills/agentvfs/SKILL.md",
        "gemini/skills/agentvfs/SKILL.md",
    ] {
        assert_eq!(fs::read_to_string(plugins.join(copy)).unwrap(), skill, "{copy}");
    }
    let avfs = assert_cmd::cargo::cargo_bin!("avfs").to_str().unwrap().to_owned();
    let settings = fs::read_to_string(sandbox.path("home/.claude/settings.json")).unwrap();
    let installed: Value = serde_json::from_str(&settings.replace(&avfs, "avfs")).unwrap();
    let hooks = fs::read_to_string(plugins.join("agentvfs/hooks/hooks.json")).unwrap();
    let shipped: Value = serde_json::from_str(&hooks).unwrap();
    assert_eq!(shipped["hooks"], installed["hooks"]);
}
