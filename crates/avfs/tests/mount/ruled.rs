//! Rules and labels of mounts, changed while programs use them.

use crate::together;

/// Runs a script in which `refused COMMAND` fails if the command does not.
#[track_caller]
fn scene(script: &str) {
    let refused = "refused() { if eval \"$1\" 2>/dev/null; then echo \"not refused: $1\"; exit 1; fi; }";
    together::scene(&format!("{refused}\n{script}"));
}

#[test]
fn a_mount_has_the_rules_of_its_flags_or_those_of_the_vault() {
    scene(
        "avfs write -p src/a text
        avfs write -p secrets/k hidden
        avfs rules set --preset full-access --rule '/secrets/**=none'
        avfs mount v one
        test \"$(ls one)\" = src
        test \"$(avfs ls)\" = src
        avfs mount v two --no-rules
        test \"$(ls two | tr '\\n' ' ')\" = 'secrets src '
        avfs unmount two
        printf '[rules]\\nextends = \"read-only\"\\n' > rules.toml
        avfs mount v two --rules rules.toml --rule '/src/**=write' --principal agent
        echo more >> two/src/a
        refused 'echo x > two/new'
        refused 'echo x > two/secrets/k'
        avfs mounts | grep -q 'principal=agent,rules=2'
        test \"$(avfs mounts --json | grep -c 'rule=/src/\\*\\*=write')\" = 1
        avfs unmount two
        avfs unmount one",
    );
}

#[test]
fn many_rules_are_handed_over() {
    scene(
        "{ echo '[rules.levels]'; echo '\"/**\" = \"read\"'
           for i in $(seq 500); do echo \"\\\"/some/rather/long/directory/name/number-$i/**\\\" = \\\"none\\\"\"; done; } > rules.toml
        avfs write -p some/rather/long/directory/name/number-77/x text
        avfs write -p some/rather/long/directory/name/other text
        avfs mount v one --rules rules.toml
        test \"$(ls one/some/rather/long/directory/name)\" = other
        avfs unmount one",
    );
}

#[test]
fn other_rules_hold_for_open_files_when_apply_returns() {
    scene(
        "avfs write -p src/a text
        avfs mount v one --preset full-access
        cat one/src/a; ls one/src
        exec 3<one/src/a 4>>one/src/a
        avfs rules apply one --rule '/**=write' --rule '/src/**=none'
        refused 'cat one/src/a'
        test \"$(ls one)\" = ''
        refused 'cat <&3'
        refused 'echo more >&4'
        avfs rules apply one --rule '/**=write' --rule '/src/**=read'
        test \"$(cat one/src/a)\" = text
        refused 'echo more >> one/src/a'
        avfs rules apply one --no-rules
        echo more >> one/src/a
        avfs rules set --preset read-only
        avfs rules apply one
        refused 'echo more >> one/src/a'
        refused 'avfs rules apply two --preset read-only'
        refused 'avfs rules apply one --preset nonsense'
        exec 3<&- 4>&-
        avfs unmount one",
    );
}

#[test]
fn a_label_that_is_set_by_a_command_is_obeyed_in_mounts_at_once() {
    scene(
        "avfs write -p docs/deep/a text
        avfs write -p docs/b text
        avfs mount v one --preset full-access --rule label:private=none@1
        avfs mount v two
        cat one/docs/deep/a; ls -R one; stat one/docs/b
        exec 3<one/docs/deep/a
        (cd one/docs/deep; avfs label set docs private; refused ls; refused \"cat a\")
        refused 'cat <&3'
        refused 'cat one/docs/deep/a'
        refused 'test -e one/docs'
        test \"$(ls one)\" = ''
        test \"$(cat two/docs/deep/a)\" = text
        avfs label remove docs private
        test \"$(cat one/docs/deep/a)\" = text
        avfs label set docs/b private
        test \"$(ls one/docs)\" = deep
        refused 'cat one/docs/b'
        mv two/docs/b two/c
        refused 'test -e one/c'
        avfs undo; avfs undo
        test \"$(cat one/docs/b)\" = text
        exec 3<&-
        avfs unmount one
        avfs unmount two",
    );
}

#[test]
fn commands_with_rules_work_on_a_mounted_vault() {
    scene(
        "avfs mount v one
        mkdir one/src one/secrets
        echo text > one/src/a; echo hidden > one/secrets/k
        view='--rule /**=write --rule /secrets/**=none'
        test \"$(avfs ls $view)\" = src
        refused 'avfs cat secrets/k $view'
        avfs write src/b more $view
        test \"$(cat one/src/b)\" = more
        refused 'avfs write src/b other --preset read-only'
        refused 'avfs rm -r secrets $view'
        test \"$(cat one/secrets/k)\" = hidden
        avfs unmount one",
    );
}
