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
    let mut table = "| place | reads |\n|---|---|\n".to_owned();
    for (place, roots) in RootSet::PLACES {
        let names: Vec<_> = Root::ALL.into_iter().flat_map(|root| readable(roots, root)).collect();
        writeln!(table, "| {place} | {} |", names.join(", ")).expect("a text takes everything");
    }
    table
}

/// A name with the fields of it that can be read, where not all can.
fn readable(roots: RootSet, root: Root) -> Vec<String> {
    let name = root.as_str();
    match roots.readable(root) {
        None => Vec::new(),
        Some([]) => vec![format!("`{name}`")],
        Some(fields) => fields.iter().map(|field| format!("`{name}.{field}`")).collect(),
    }
}
