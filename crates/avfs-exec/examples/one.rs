fn main() {
    let before = std::env::args().nth(1).unwrap();
    let n: usize = std::env::args().nth(2).unwrap().parse().unwrap();
    let rest = std::env::args().nth(3).unwrap_or_default();
    let t = std::time::Instant::now();
    let after = std::env::args().nth(4).unwrap_or_default();
    let f = avfs_exec::classify(&avfs_exec::Command::Shell(before.repeat(n) + &rest + &after.repeat(n)));
    println!(
        "{before} {n}: {} {:?} {:?}",
        f.class,
        f.parts.last().map(|p| &p.reason).map(|r| r.chars().take(60).collect::<String>()),
        t.elapsed()
    );
}
