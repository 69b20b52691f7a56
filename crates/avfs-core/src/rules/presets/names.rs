//! The names that the presets treat in a special way, at any depth of a tree.

/// What these names mean is known: files and directories that hold secrets.
pub(in crate::rules) const SECRETS: &[&str] = &[
    ".ssh",
    ".aws",
    ".azure",
    ".config/gcloud",
    ".docker/config.json",
    ".dockercfg",
    ".git-credentials",
    ".gnupg",
    ".kube",
    ".my.cnf",
    ".netrc",
    "_netrc",
    ".password-store",
    ".pgpass",
    ".pypirc",
    ".s3cfg",
    ".vault-token",
    "*.kdbx",
    "*.ppk",
];

/// Some of these are public: see [`PUBLIC`].
pub(in crate::rules) const SECRETS_WITH_PUBLIC: &[&str] = &["id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*"];

/// Secrets by the sound of their names. Packages have such names too: see [`PACKAGES`].
pub(in crate::rules) const SECRETS_BY_WORD: &[&str] = &[
    ".env*",
    ".htpasswd",
    "credentials*",
    "secrets",
    "service-account*.json",
    "*.key",
    "*.pem",
    "*.p12",
    "*.pfx",
    "*.jks",
    "*.keystore",
];

/// Public, though their names sound like secrets. Each must refine one of those above.
pub(in crate::rules) const PUBLIC: &[&str] = &[
    ".env.{example,sample,template,dist}",
    "id_rsa*.pub",
    "id_dsa*.pub",
    "id_ecdsa*.pub",
    "id_ed25519*.pub",
];

/// Directories of installed packages, which are public: `npm install` must be able to write `lib/credentials.js`.
/// So are names of branches in `.git`.
pub(in crate::rules) const PACKAGES: &str = "{node_modules,site-packages}";

/// Here whole directories are public too. Not at any depth: they could then be in a directory of secrets.
pub(in crate::rules) const PACKAGES_AT_ROOT: &str = "{node_modules,.venv,venv}";

/// Git runs these, or what they name. `commondir` says where to find the others, and `gitdir` which directory of files they
/// are for. `git worktree add` writes those of a new worktree, whose directory is a fresh one.
pub(in crate::rules) const RUN_BY_GIT: &[&str] = &[
    ".git/{config,config.worktree,commondir,gitdir,info/attributes}",
    ".git/hooks/",
    ".git/modules/**/{config,config.worktree,commondir,gitdir,info/attributes}",
    ".git/modules/**/hooks/",
    ".git/worktrees/*/{config,config.worktree,commondir,gitdir,info/attributes}",
    ".git/worktrees/*/hooks/",
];

/// Files of a project that hooks, editors, shells, debuggers and agents run, or that name what they run.
pub(in crate::rules) const RUN_BY_TOOLS: &[&str] = &[
    ".gitconfig",
    ".config/git/",
    ".hg/hgrc",
    ".{husky,githooks,git-hooks}/",
    ".overcommit.yml",
    ".vscode/{tasks,settings,launch,extensions,mcp,c_cpp_properties}.json",
    "*.code-workspace",
    ".idea/",
    ".zed/",
    ".devcontainer/",
    ".devcontainer.json",
    ".helix/{config,languages}.toml",
    ".mcp.json",
    ".claude/settings*.json",
    ".claude/hooks/",
    ".cursor/{mcp,hooks}.json",
    ".codex/config.toml",
    ".{gemini,qwen,amp}/settings.json",
    ".opencode/{plugin,plugins,command,commands,tool,tools}/",
    "{opencode,.opencode/opencode}.{json,jsonc}",
    ".aider.conf.yml",
    ".github/hooks/",
    ".kiro/{hooks,settings}/",
    ".roo/mcp.json",
    ".continue/config.{yaml,json,ts}",
    ".continue/mcpServers/",
    ".continuerc.json",
    ".{bashrc,bash_profile,bash_login,bash_logout,bash_aliases,profile}",
    ".{zshrc,zshenv,zprofile,zlogin,zlogout,kshrc,cshrc,tcshrc,login}",
    ".{xprofile,xinitrc,xsession}",
    ".config/{fish,autostart,systemd,mise}/",
    ".tmux.conf",
    ".{vimrc,nvimrc,exrc,gvimrc,lvimrc,nvim.lua}",
    ".{gdbinit,lldbinit,pdbrc}",
    ".{Rprofile,irbrc,pryrc}",
];

/// The same, and read for every file below their directory: in a package as well as anywhere else.
pub(in crate::rules) const RUN_FOR_FILES_BELOW: &[&str] = &[".dir-locals{,-2}.el"];

/// Run by the host too. No rule makes it readable: it is hidden with `.env*`, unless git tracks it and it holds no secret.
pub(in crate::rules) const RUN_AND_HIDDEN: &[&str] = &[".envrc"];
