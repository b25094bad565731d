//! SE0405: fields that consumers can set, and that none of the mappings of their resource reads.

use std::collections::BTreeMap;

use super::conflicts::{SourceKey, source_key};
use super::{Catalog, Entry, InFile, Standing};
use crate::coverage::{SourceRead, reads_of_source};
use crate::diagnostic::{Diagnostic, Finding};
use crate::schema::{DEPTH, Schemas, View};
use crate::yaml::quoted;

pub(super) fn warnings(catalog: &Catalog, schemas: &Schemas) -> Vec<Diagnostic> {
    let mut by_source: BTreeMap<SourceKey, Vec<&Entry>> = BTreeMap::new();
    for entry in catalog.mappings.values().filter(|entry| entry.standing == Standing::Running) {
        by_source.entry(source_key(&entry.mapping)).or_default().push(entry);
    }
    by_source.values().filter_map(|entries| warning(catalog, schemas, entries)).collect()
}

fn warning(catalog: &Catalog, schemas: &Schemas, entries: &[&Entry]) -> Option<Diagnostic> {
    let first = entries.first()?;
    let schema = schemas.resource(&first.mapping.source.resource)?;
    let reads: Vec<_> = entries.iter().flat_map(|entry| reads_of_source(&entry.mapping)).collect();
    let mut fields = Vec::new();
    for (name, view) in schema.view().fields() {
        if !["apiVersion", "kind", "metadata", "status"].contains(&name) {
            look(view, &mut vec![name], &reads, &mut fields);
        }
    }
    if fields.is_empty() {
        return None;
    }
    let InFile { file, content, mapping } = catalog.in_file(&first.mapping.name)?;
    let resource = mapping.spec.at(&["source", "resource"])?.headline();
    let message = format!("no mapping reads {} of {}", quoted(fields), schema.kind);
    let finding = Finding::new("SE0405", resource, message).label("consumers can set what nothing reads");
    Some(Diagnostic::new(finding.help("read it, or take it out of the consumers' schema"), file, content))
}

/// Finds the topmost fields that nothing reads.
fn look<'s>(view: View<'s>, path: &mut Vec<&'s str>, reads: &[SourceRead<'_>], found: &mut Vec<String>) {
    if path.len() > DEPTH || reads.iter().any(|read| read.covers(path)) {
        return;
    }
    if !reads.iter().any(|read| read.path.starts_with(path)) {
        return found.push(path.join("."));
    }
    for (name, below) in view.fields() {
        path.push(name);
        look(below, path, reads, found);
        path.pop();
    }
}
