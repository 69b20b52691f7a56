//! The names that the presets treat specially, at any depth of a tree.

/// Names with a well-known meaning: files and directories that hold secrets.
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

/// Names that suggest a secret. Packages contain such names too: see [`PACKAGES`].
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

/// Public, although the names suggest a secret. Each must refine one of those above.
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

/// Here whole directories are public too. Not at any depth, because they could then be in a directory of
/// secrets.
pub(in crate::rules) const PACKAGES_AT_ROOT: &str = "{node_modules,.venv,venv}";

/// Git runs these, or the programs that they name. `commondir` says where to find the others, and `gitdir` to
/// which worktree they belong. `git worktree add` writes the files of a new worktree, whose directory is a
/// fresh one.
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
    ".{husky,githooks,git-hooks,lefthook,lefthook-local}/",
    ".huskyrc",
    ".huskyrc.{json,js,cjs,yaml,yml}",
    "{lefthook,.lefthook}-local.{yml,yaml,toml,json}",
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
    "{crush,.crush}.json",
    ".clinerules/hooks/",
    ".windsurf/{hooks,mcp,mcp_config}.json",
    ".amazonq/",
    ".factory/{mcp,settings,hooks}.json",
    ".factory/hooks/",
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
    ".{Rprofile,Renviron,irbrc,pryrc,ghci,ocamlinit,iex.exs,octaverc,erlang,perldb,jdbrc}",
    "{mise,.mise}{,.*}.local.toml",
    "{mise,.mise}/",
    "jupyter_*config.{py,json}",
    "jupyter_config.{py,json}",
    "ipython_config.py",
];

/// Repositories of other systems than git. Their settings, and those to which other files of them lead, name programs;
/// which files these are differs between versions, so all of a repository is protected.
pub(in crate::rules) const OTHER_REPOSITORIES: &[&str] = &[
    ".{hg,jj,sl,pijul,bzr,svn}/",
    "_darcs/",
    "CVS/",
    "{.fslckout,_FOSSIL_,.fos}",
];

/// The same, and read for every file below their directory, including in packages.
pub(in crate::rules) const RUN_FOR_FILES_BELOW: &[&str] = &[".dir-locals{,-2}.el"];

/// Run by the host too. No rule makes it readable: it is hidden with `.env*`, unless git tracks it and it holds no secret.
pub(in crate::rules) const RUN_AND_HIDDEN: &[&str] = &[".envrc"];
