//! Generated pages of `docs/` are what their generators write now. Rewrite: `cargo xtask docs`.

use axp_tests::chores;

#[test]
fn generated_pages_are_up_to_date() {
    chores::docs(true).unwrap();
}
