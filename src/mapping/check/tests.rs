use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::*;
use crate::mapping::compile::{Compiled, compile};
use crate::mapping::diagnostic::Diagnostic;

fn root(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn files(directory: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root(directory)).expect("the fixtures are part of the repository");
    let mut files: Vec<_> = entries
        .map(|entry| entry.expect("readable").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .collect();
    files.sort();
    assert!(!files.is_empty());
    files
}

fn schemas() -> Schemas {
    let mut schemas = Schemas::default();
    for path in files("tests/ui/checks/schemas").into_iter().chain(files("schemas/mongodb")) {
        assert_eq!(schemas.add_file(&std::fs::read(&path).expect("readable")), [], "{}", path.display());
    }
    schemas
}

/// Every finding of a file's mappings, which all compile.
fn shown(name: &str, file: &str, schemas: &Schemas) -> String {
    let mut parts = Vec::new();
    for document in yaml::parse(file.as_bytes()) {
        let outcome = compile(&document);
        let Some(Compiled::Mapping(mapping)) = outcome.compiled else { panic!("{name}: {:?}", outcome.findings) };
        let findings = check(&document, &mapping, schemas);
        parts.extend(findings.into_iter().map(|finding| Diagnostic::new(finding, name, file.as_bytes()).render(false)));
        parts.push(format!("checked: mapping {}", mapping.name));
    }
    parts.join("\n\n")
}

/// Each file of `tests/ui/checks` has the text of its diagnostics beside it.
#[test]
fn diagnostics_of_checks() {
    let schemas = schemas();
    for path in files("tests/ui/checks") {
        let name = path.file_name().expect("a file").to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).expect("readable");
        let directory = root("tests/ui/checks");
        insta::with_settings!({snapshot_path => directory, prepend_module_to_snapshot => false, omit_expression => true}, {
            insta::assert_snapshot!(name.clone(), shown(&name, &text, &schemas));
        });
    }
}

/// The same of schema documents.
#[test]
fn diagnostics_of_schemas() {
    for path in files("tests/ui/schemas") {
        let name = path.file_name().expect("a file").to_string_lossy().into_owned();
        let content = std::fs::read(&path).expect("readable");
        let findings = Schemas::default().add_file(&content);
        let shown: Vec<_> =
            findings.into_iter().map(|finding| Diagnostic::new(finding, &name, &content).render(false)).collect();
        let directory = root("tests/ui/schemas");
        insta::with_settings!({snapshot_path => directory, prepend_module_to_snapshot => false, omit_expression => true}, {
            insta::assert_snapshot!(name.clone(), shown.join("\n\n"));
        });
    }
}

/// What a mapping reads and writes without a schema is never wrong.
#[test]
fn without_schemas_nothing_is_said_of_types() {
    for path in files("tests/ui/checks") {
        let text = std::fs::read_to_string(&path).expect("readable");
        for document in yaml::parse(text.as_bytes()) {
            let Some(Compiled::Mapping(mapping)) = compile(&document).compiled else { panic!("{}", path.display()) };
            let codes = check(&document, &mapping, &Schemas::default()).into_iter().map(|finding| finding.code);
            let about_types: Vec<_> = codes.filter(|code| !code.starts_with("SE07") && *code != "SE0607").collect();
            assert_eq!(about_types, Vec::<&str>::new(), "{}", path.display());
        }
    }
}

#[test]
fn shipped_mappings_are_clean() {
    let schemas = schemas();
    for path in files("mappings") {
        let file = std::fs::read_to_string(&path).expect("readable");
        for document in yaml::parse(file.as_bytes()) {
            let outcome = compile(&document);
            assert_eq!(outcome.findings, [], "{}", path.display());
            if let Some(Compiled::Mapping(mapping)) = outcome.compiled {
                assert_eq!(check(&document, &mapping, &schemas), [], "{}", path.display());
            }
        }
    }
}

/// It has a `plan`, endpoints, a connection's secret and members' hosts, which the shipped schemas have not.
#[test]
fn the_full_document_is_checked_without_a_panic() {
    let file = include_str!("../../../tests/ui/documents/good.yaml");
    let document = yaml::parse(file.as_bytes()).remove(0);
    let Some(Compiled::Mapping(mapping)) = compile(&document).compiled else { panic!("it is good") };
    let mapping: Arc<Mapping> = mapping;
    let codes: Vec<_> = check(&document, &mapping, &schemas()).into_iter().map(|finding| finding.code).collect();
    assert_eq!(codes, ["SE0401", "SE0601", "SE0606", "SE0601"]);
}
