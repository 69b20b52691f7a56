//! Several processes that mount and unmount one vault at the same time.

use std::path::Path;

use crate::shell::sh;

/// Runs a script with a store of its own that has the vault `v`, and removes mounts that it has left.
#[track_caller]
pub fn scene(script: &str) {
    let ground = tempfile::tempdir().unwrap();
    let avfs = assert_cmd::cargo::cargo_bin!("avfs");
    let start = format!(
        "avfs() {{ '{}' \"$@\"; }}
        export AVFS_HOME=$PWD/store AVFS_VAULT=v XDG_CONFIG_HOME=/nonexistent
        mounted() {{ grep -c \" $PWD/$1 \" /proc/self/mounts || true; }}
        take_away() {{ for dir in one two; do while umount -l $dir 2>/dev/null; do :; done; done; }}
        trap take_away EXIT
        mkdir one two
        avfs vault create v",
        Path::new(avfs).display()
    );
    sh(ground.path(), &format!("{start}\n{script}"));
}

#[test]
fn a_directory_is_mounted_on_once() {
    scene(
        "avfs mount v one
        ! avfs mount v one
        test $(mounted one) = 1
        echo kept > one/a
        avfs unmount one
        test $(mounted one) = 0
        test \"$(avfs cat /a)\" = kept",
    );
}

#[test]
fn failed_background_mount_is_reported_as_an_object() {
    scene(
        "avfs vault create w
        avfs mount v one
        status=0
        avfs mount w one --json > told || status=$?
        test $status = 4
        test $(wc -l < told) = 1
        grep -q '\"code\":\"host-exists\"' told
        avfs unmount one",
    );
}

#[test]
fn two_concurrent_mounts_of_a_vault_both_succeed() {
    scene(
        "for round in 1 2 3; do
            avfs mount v one & first=$!
            avfs mount v two & second=$!
            wait $first
            wait $second
            echo $round > one/a
            test $(cat two/a) = $round
            avfs unmount one
            avfs unmount two
        done",
    );
}

#[test]
fn a_mount_that_comes_while_the_last_one_goes_is_served() {
    scene(
        "for round in 1 2 3; do
            avfs mount v one
            head -c 30000000 /dev/urandom > one/much
            sum=$(md5sum < one/much)
            avfs unmount one & first=$!
            avfs mount v two
            wait $first
            test \"$(md5sum < two/much)\" = \"$sum\"
            avfs unmount two
        done",
    );
}

#[test]
fn mounted_past_state_survives_garbage_collection() {
    scene(
        "avfs mount v one
        echo old > one/a
        avfs checkpoint save before
        echo new > one/a
        avfs checkpoint save behind
        avfs mount v two --at before
        avfs checkpoint delete before
        AVFS_RETENTION_ALL=0s AVFS_RETENTION_HOURLY=0s AVFS_RETENTION_DAILY=0s avfs prune
        avfs gc
        test \"$(cat two/a)\" = old
        avfs unmount two
        avfs unmount one
        avfs fsck",
    );
}

#[test]
fn read_only_mount_stays_read_only_after_a_remount() {
    scene(
        "avfs mount v one
        echo kept > one/a
        avfs checkpoint save then
        avfs unmount one
        avfs mount v one --read-only
        avfs mount v two --at then
        for dir in one two; do
            mount -i -o remount,rw $PWD/$dir
            ! echo changed > $dir/a
            ! echo more >> $dir/a
            ! touch $dir/b
            ! chmod 600 $dir/a
            test \"$(cat $dir/a)\" = kept
            test \"$(ls $dir)\" = a
            avfs unmount $dir
        done
        test \"$(avfs cat /a)\" = kept",
    );
}

#[test]
fn a_mount_whose_starter_has_gone_is_taken_away() {
    scene(
        "avfs mount --background-child v one | true || true
        until test $(mounted one) = 0; do :; done
        avfs mount v one
        avfs unmount one",
    );
}
