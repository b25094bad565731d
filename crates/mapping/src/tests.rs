//! Files of `tests/ui`, each with a text beside it that is reviewed; and what `mod.rs` says of resources.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::compile::{Compiled, compile};
use super::diagnostic::{Diagnostic, Finding};
use super::{Kind, Mapping, Resource, yaml};

/// The YAML files of a folder of the repository.
pub(super) fn files(folder: &str) -> Vec<PathBuf> {
    of_kind(folder, "yaml")
}

/// The files of a folder whose names end so.
pub(super) fn of_kind(folder: &str, kind: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(root(folder)).expect("the fixtures are part of the repository");
    let mut files: Vec<_> = entries.map(|entry| entry.expect("readable").path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == kind));
    files.sort();
    assert!(!files.is_empty());
    files
}

pub(super) fn read(path: &Path) -> String {
    fs::read_to_string(path).expect("readable")
}

/// The mapping of a file that is good.
pub(super) fn mapping(file: &str) -> Arc<Mapping> {
    let outcome = compile(&yaml::parse(file.as_bytes()).remove(0));
    let Some(Compiled::Mapping(mapping)) = outcome.compiled else { panic!("no mapping: {outcome:?}") };
    mapping
}

/// What an author reads of each finding in a file.
pub(super) fn rendered(findings: impl IntoIterator<Item = Finding>, name: &str, file: &str) -> Vec<String> {
    let shown = |finding| Diagnostic::new(finding, name, file.as_bytes()).render(false);
    findings.into_iter().map(shown).collect()
}

/// Compares what is shown of each file of a folder, given its name and its text.
pub(super) fn each(folder: &str, shown: impl Fn(&str, &str) -> String) {
    for path in files(folder) {
        let name = path.file_name().expect("a file").to_string_lossy();
        snapshot(folder, &name, &shown(&name, &read(&path)));
    }
}

/// Compares a text with the one of this name in a folder.
pub(super) fn snapshot(folder: &str, name: &str, text: &str) {
    insta::with_settings!({snapshot_path => root(folder), prepend_module_to_snapshot => false, omit_expression => true}, {
        insta::assert_snapshot!(name, text);
    });
}

fn root(folder: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join(folder)
}

#[test]
fn definitions_serve_what_is_not_built_in() {
    let is_built_in = |group: &&str| Kind::new(*group, "v1", "Any").is_built_in();
    let own = ["", "apps", "policy", "networking.k8s.io", "rbac.authorization.k8s.io", "flowcontrol.apiserver.k8s.io"];
    assert!(own.iter().all(is_built_in));
    let others = ["db.example.com", "gateway.networking.k8s.io", "autoscaling.k8s.io", "kueue.x-k8s.io"];
    assert!(!others.iter().any(is_built_in));
}

#[test]
fn plurals_fit_their_kinds() {
    let fits = |plural: &str, kind: &str| {
        Resource { group: String::new(), version: "v1".into(), plural: plural.into() }.may_serve(kind)
    };
    for (plural, kind) in [
        ("secrets", "Secret"),
        ("deployments", "Deployment"),
        ("networkpolicies", "NetworkPolicy"),
        ("ingresses", "Ingress"),
    ] {
        assert_eq!(Kind::new("", "v1", kind).plural(), plural);
        assert!(fits(plural, kind), "{plural}");
    }
    assert!(fits("mongodbcommunity", "MongoDBCommunity"), "a definition may choose another");
    for (plural, kind) in [("secrets", "ConfigMap"), ("podtemplates", "Pod"), ("pods", "")] {
        assert!(!fits(plural, kind), "{plural}");
    }
}
