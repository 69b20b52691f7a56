use super::*;

fn sides(style: MarkerStyle) -> SideNames {
    SideNames {
        ours: "a".into(),
        theirs: "b".into(),
        base: "old".into(),
        style,
    }
}

#[track_caller]
fn check(base: &str, ours: &str, theirs: &str, merged: &str, conflicts: usize) {
    let result = merge_lines(
        base.as_bytes(),
        ours.as_bytes(),
        theirs.as_bytes(),
        &sides(MarkerStyle::Merge),
    );
    assert_eq!(String::from_utf8_lossy(&result.merged), merged);
    assert_eq!(result.conflicts, conflicts);
}

#[test]
fn changes_apart_from_each_other_are_both_taken() {
    check(
        "1\n2\n3\n4\n5\n",
        "1\nx\n3\n4\n5\n",
        "1\n2\n3\n4\ny\n",
        "1\nx\n3\n4\ny\n",
        0,
    );
    check("1\n2\n3\n", "0\n1\n2\n3\n", "1\n2\n", "0\n1\n2\n", 0);
}

#[test]
fn each_conflict_becomes_what_is_chosen_for_it() {
    let [base, ours, theirs] = [
        "1\n2\n3\n4\n5\n6\n7\n8\n9\n",
        "a\n2\n3\na\n5\n6\na\n8\na\n",
        "b\n2\n3\nb\n5\n6\nb\n8\n9\n",
    ];
    let mut chosen = [ConflictPolicy::Theirs, ConflictPolicy::Ours, ConflictPolicy::Mark].into_iter();
    let names = sides(MarkerStyle::Merge);
    let merged = merge_lines_choosing(
        base.as_bytes(),
        ours.as_bytes(),
        theirs.as_bytes(),
        &names,
        |_| chosen.next().unwrap(),
    );
    assert_eq!(
        String::from_utf8_lossy(&merged.merged),
        "b\n2\n3\na\n5\n6\n<<<<<<< a\na\n=======\nb\n>>>>>>> b\n8\na\n"
    );
    assert_eq!((merged.conflicts, chosen.next()), (1, None));
}

#[test]
fn a_side_without_changes_gives_the_other_one() {
    check("1\n2\n", "1\n2\n", "1\nx\n", "1\nx\n", 0);
    check("1\n2\n", "", "1\n2\n", "", 0);
    check("", "", "new", "new", 0);
}

#[test]
fn the_same_change_on_both_sides_is_clean() {
    check("1\n2\n3\n", "1\nx\n3\n", "1\nx\n3\n", "1\nx\n3\n", 0);
    check(
        "1\n2\n3\n4\n5\n",
        "1\nx\n3\n4\n",
        "1\nx\n3\n4\nfive\n",
        "1\nx\n3\n4\n<<<<<<< a\n=======\nfive\n>>>>>>> b\n",
        1,
    );
    check(
        "1\n2\n3\n4\n5\n",
        "x\n2\n3\n4\n5\n",
        "x\n2\n3\n4\nfive\n",
        "x\n2\n3\n4\nfive\n",
        0,
    );
}

#[test]
fn changes_that_touch_are_a_conflict() {
    check(
        "1\n2\n3\n",
        "x\n2\n3\n",
        "1\ny\n3\n",
        "<<<<<<< a\nx\n2\n=======\n1\ny\n>>>>>>> b\n3\n",
        1,
    );
}

#[test]
fn common_lines_are_outside_of_a_conflict() {
    let lines: String = (0..10).map(|line| format!("new {line}\n")).collect();
    let ours = format!("first a\n{lines}last a\n");
    let theirs = format!("first b\n{lines}last b\n");
    let expected = format!(
        "<<<<<<< a\nfirst a\n=======\nfirst b\n>>>>>>> b\n{lines}<<<<<<< a\nlast a\n=======\nlast b\n>>>>>>> b\n"
    );
    check("", &ours, &theirs, &expected, 2);
}

#[test]
fn markers_come_after_whole_lines() {
    check("1", "2", "3", "<<<<<<< a\n2\n=======\n3\n>>>>>>> b\n", 1);
    check("1\n2\n3", "x\n2\n3", "1\n2\n3\n", "x\n2\n3\n", 0);
}

#[test]
fn markers_end_as_the_lines_around_them_do() {
    let merged = "1\r\n<<<<<<< a\r\nx\r\n=======\r\ny\r\n>>>>>>> b\r\n3\r\n";
    check("1\r\n2\r\n3\r\n", "1\r\nx\r\n3\r\n", "1\r\ny\r\n3\r\n", merged, 1);
    check("1\r\n2\r\n3\r\n", "1\n2\n3\n", "1\r\n2\r\n3\r\n", "1\n2\n3\n", 0);
}

#[test]
fn the_base_is_shown_when_asked_for() {
    let result = merge_lines(
        b"1\n2\n3\n",
        b"1\nx\n3\n",
        b"1\ny\n3\n",
        &sides(MarkerStyle::Diff3),
    );
    assert_eq!(
        result.merged,
        b"1\n<<<<<<< a\nx\n||||||| old\n2\n=======\ny\n>>>>>>> b\n3\n"
    );
}

#[test]
fn binaries_are_told_from_texts_by_a_nul_byte_near_the_start() {
    assert!(is_text(b"") && is_text("häßlich".as_bytes()) && is_text(b"\xff\xfe"));
    assert!(!is_text(b"a\0b"));
    assert!(is_text(&[vec![b'a'; PROBE], vec![0]].concat()));
}
