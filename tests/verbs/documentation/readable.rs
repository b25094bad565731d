//! The table of the language page that says which names can be read where.

use std::fmt::Write;

use sync_engine::mapping::expression::{Root, RootSet};

use super::read;

const BEGIN: &str = "<!-- readable: generated";
const END: &str = "<!-- readable: end -->";

/// The page with its table made anew.
pub fn page() -> String {
    let page = read("docs/language.md");
    let begin = page.find(BEGIN).expect("the table has its place");
    let begin = begin + page[begin..].find('\n').expect("a line of its own") + 1;
    let end = page.find(END).expect("the table ends");
    format!("{}{}{}", &page[..begin], table(), &page[end..])
}

fn table() -> String {
    let names = Root::ALL.map(|root| format!("`{}`", root.name()));
    let mut table = format!("| place | {} |\n|---|{}\n", names.join(" | "), "---|".repeat(names.len()));
    for (place, roots) in RootSet::PLACES {
        let cells = Root::ALL.map(|root| cell(roots, root));
        writeln!(table, "| {place} | {} |", cells.join(" | ")).expect("a text takes everything");
    }
    table
}

fn cell(roots: RootSet, root: Root) -> String {
    match roots.readable(root) {
        None => "–".to_owned(),
        Some([]) => "yes".to_owned(),
        Some(fields) => fields.iter().map(|field| format!("`{field}`")).collect::<Vec<_>>().join(", "),
    }
}
