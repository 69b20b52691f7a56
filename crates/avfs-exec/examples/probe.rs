use std::time::Instant;
fn brush(text: &str, show: bool) {
    let options = brush_parser::ParserOptions::default();
    let start = Instant::now();
    match brush_parser::uncached_tokenize_str(text, &options.tokenizer_options()) {
        Ok(tokens) => {
            let t1 = start.elapsed();
            if show {
                println!("tokens {:?}", tokens.iter().map(|t| t.to_str().to_owned()).collect::<Vec<_>>());
            }
            let r = brush_parser::parse_tokens(&tokens, &options);
            let t2 = start.elapsed();
            match &r {
                Ok(p) => {
                    if show {
                        println!("{p:?}");
                    }
                }
                Err(e) => println!("error {}", e.to_string().chars().take(100).collect::<String>()),
            }
            let s2 = Instant::now();
            let w =
                tokens.iter().map(|t| brush_parser::word::parse(t.to_str(), &options)).collect::<Vec<_>>();
            println!(
                "brush tokens {} in {t1:?} parse {t2:?} words {:?} ok {}",
                tokens.len(),
                s2.elapsed(),
                w.iter().all(|x| x.is_ok())
            );
            if show {
                for x in w {
                    println!("   {x:?}");
                }
            }
        }
        Err(e) => println!("tokenize error {e} in {:?}", start.elapsed()),
    }
}
fn sitter(text: &str, show: bool) {
    let start = Instant::now();
    let mut parser = tree_sitter::Parser::new();
    parser.set_language(&tree_sitter_bash::LANGUAGE.into()).unwrap();
    let mut calls = 0u64;
    let mut cb = |_s: &tree_sitter::ParseState| {
        calls += 1;
        std::ops::ControlFlow::Continue(())
    };
    let tree = parser.parse_with_options(
        &mut |i, _| &text.as_bytes()[i..],
        None,
        Some(tree_sitter::ParseOptions::new().progress_callback(&mut cb)),
    );
    let tree = tree.unwrap();
    println!("sitter {:?} error {} calls {calls}", start.elapsed(), tree.root_node().has_error());
    if show {
        println!("{}", tree.root_node().to_sexp());
    }
}
fn main() {
    if std::env::args().nth(1).as_deref() == Some("dump") {
        return dump(&std::env::args().nth(2).unwrap());
    }
    let args: Vec<String> = std::env::args().skip(1).collect();
    std::thread::Builder::new()
        .stack_size(1 << 30)
        .spawn(move || {
            if args[0] == "nest" {
                let n: usize = args[1].parse().unwrap();
                for (name, a, b, c) in [
                    ("cmdsub", "$(echo ", "x", ")"),
                    ("quoted", "\"$(echo ", "x", ")\""),
                    ("paren", "( ", "x", " )"),
                    ("parens", "(", "x", ")"),
                    ("brace", "{ ", "x;", " ; }"),
                    ("if", "if ", "x", "; then y; fi"),
                    ("param", "${a:-", "x", "}"),
                    ("arith", "$((", "1", "))"),
                    ("echo arith", "echo $(( ", "1", " ))"),
                    ("fn", "f() { ", "x", " ; }"),
                    ("test", "[[ ( ", "x", " ) ]]"),
                    ("procsub", "<(cat ", "x", ")"),
                    ("case", "case x in a) ", "x", ";; esac"),
                    ("while", "while ", "x", "; do y; done"),
                    ("bang", "! ", "x", ""),
                    ("many", "a $(b) \"${c}\" > d; ", "x", ""),
                    ("unclosed", "$(", "", ""),
                    ("bt", "`", "x", "`"),
                    ("extglob", "@(", "a", ")"),
                ] {
                    let text = a.repeat(n) + b + &c.repeat(n);
                    let prefix = if a.starts_with('$')
                        || a.starts_with('"')
                        || a.starts_with('<')
                        || a.starts_with('@')
                        || a.starts_with('`')
                    {
                        "echo "
                    } else {
                        ""
                    };
                    let text = format!("{prefix}{text}");
                    println!("== {name} {}", text.len());
                    sitter(&text, false);
                    brush(&text, false);
                }
            } else {
                for a in args {
                    println!("=== {a}");
                    brush(&a, true);
                    sitter(&a, true);
                }
            }
        })
        .unwrap()
        .join()
        .unwrap();
}
#[allow(dead_code)]
pub fn dump(text: &str) {
    let mut parser = tree_sitter::Parser::new();
    parser.set_language(&tree_sitter_bash::LANGUAGE.into()).unwrap();
    let tree = parser.parse(text, None).unwrap();
    fn go(n: tree_sitter::Node, d: usize) {
        println!("{}{} named={} {:?}", "  ".repeat(d), n.kind(), n.is_named(), n.byte_range());
        for i in 0..n.child_count() {
            go(n.child(i as u32).unwrap(), d + 1);
        }
    }
    go(tree.root_node(), 0);
}
