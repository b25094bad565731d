//! `render --provenance`: for each field of what is rendered, where its value came from.

use super::Format;
use crate::catalog::{Catalog, InFile};
use crate::mapping::Mapping;
use crate::object::shortened;
use crate::plan::preview::Preview;
use crate::plan::provenance::File;
pub(super) use crate::plan::provenance::Written;
use crate::table;

/// Longest value and expression in a table.
const WIDTH: usize = 60;

/// The fields of everything that is rendered of a source, of several targets on the first.
pub(super) fn rows(catalog: &Catalog, mapping: &Mapping, preview: &Preview) -> Vec<Written> {
    let Some(InFile { file, content, mapping }) = catalog.in_file(&mapping.name) else { return Vec::new() };
    File { path: file, first_line: 1, content }.rows(mapping, preview.rendering())
}

pub(super) fn shown(format: Format, rows: &[Written]) -> String {
    format.shown(|| by_object(rows), || by_object(rows), &rows)
}

/// A table an object.
fn by_object(rows: &[Written]) -> String {
    let mut text = String::new();
    for of_one in rows.chunk_by(|one, other| one.object == other.object) {
        let cells = |row: &Written| {
            let written = row.expression.as_deref().unwrap_or(if row.place.is_empty() { "" } else { "literal" });
            [row.field.clone(), short(&row.value.to_string()), row.place.clone(), short(written), row.reads.join(", ")]
        };
        let title = of_one.first().map(|row| row.object.as_str()).unwrap_or_default();
        let separator = if text.is_empty() { "" } else { "\n" };
        text.push_str(&format!(
            "{separator}{title}\n{}",
            table::table(["FIELD", "VALUE", "LINE", "WRITTEN", "READS"], of_one.iter().map(cells))
        ));
    }
    text
}

/// One line, cut where it is too long.
fn short(text: &str) -> String {
    shortened(&text.split_whitespace().collect::<Vec<_>>().join(" "), WIDTH)
}
