//! Prints what each line of the input is.
use std::io::Read;
fn main() {
    let mut all = String::new();
    std::io::stdin().read_to_string(&mut all).unwrap();
    for line in all.lines().filter(|l| !l.is_empty()) {
        let line = line.replace("\\n", "\n");
        let found = avfs_exec::classify(&avfs_exec::Command::Shell(line.clone()));
        println!("{:<28} | {}", found.classes.to_string(), line.replace('\n', "\\n"));
        if std::env::args().len() > 1 {
            for p in &found.parts {
                println!("      {:<20} {} [{}]", p.classes.to_string(), p.text, p.reason);
            }
        }
    }
}
