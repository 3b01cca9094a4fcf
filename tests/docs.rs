//! Generated pages of `docs/` are what their generators write now (rewrite: `cargo xtask docs`), and the
//! table of micro-programs names tests that exist.

use std::fs;

use axp_tests::chores;
use axp_tests::source::root;

#[test]
fn generated_pages_are_up_to_date() {
    chores::docs(true).unwrap();
}

#[test]
fn each_micro_program_has_its_test() {
    let page = fs::read_to_string(root().join("docs/micro-programs.md")).unwrap();
    let suite = fs::read_to_string(root().join("tests/linux.rs")).unwrap();
    let mut numbers = Vec::new();
    for line in page.lines() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, number, _, place, _] = cells[..] else { continue };
        let Ok(number) = number.parse::<u32>() else { continue };
        numbers.push(number);
        let mut text = String::new();
        // Names in backquotes are every second piece; a function follows the file that it stands in.
        for name in place.split('`').skip(1).step_by(2) {
            if !name.contains('/') {
                assert!(text.contains(&format!("fn {name}()")), "{number}: no {name}");
                continue;
            }
            text = fs::read_to_string(root().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
            if let Some(program) = name.strip_prefix("tests/linux/") {
                let program = program.trim_end_matches(".c");
                assert!(suite.contains(&format!("\"{program}\"")), "{number}: {name} is not run");
            }
        }
        assert!(!text.is_empty(), "{number} has no test");
    }
    assert_eq!(numbers, (1..=50).collect::<Vec<u32>>());
}
