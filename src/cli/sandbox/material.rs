//! Documents that a story is made of: what lies in a folder of mappings, and beside it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use crate::catalog::Files;
use crate::cli::Misconfigured;
use crate::cli::inputs;
use crate::mapping::diagnostic::{Diagnostic, Finding};
use crate::mapping::document;
use crate::mapping::schema::Schemas;
use crate::mapping::{ClusterProvider, Mapping};
use crate::story::{Found, Given, Script, ToyCluster, ToyOperator};
use crate::yaml::{self, Limits};

/// Folders beside one of mappings in which documents are looked for.
const BESIDE: [&str; 2] = ["schemas", "examples"];

/// What the sandbox alone reads.
const API_VERSION: &str = "sandbox.sync-engine.dev/v1alpha1";
const KINDS: [&str; 2] = ["ToyOperator", "ToyCluster"];

/// The mapping of the example that comes with the program, and what is beside it.
pub(super) const MAPPING: &str = include_str!("../../../mappings/mongodb.yaml");
const EXAMPLE: [(&str, &str); 6] = [
    ("apiexport.yaml", include_str!("../../../schemas/mongodb/apiexport.yaml")),
    ("apiresourceschema.yaml", include_str!("../../../schemas/mongodb/apiresourceschema.yaml")),
    ("crd.yaml", include_str!("../../../schemas/mongodb/crd.yaml")),
    ("secret.yaml", include_str!("../../../examples/mongodb/secret.yaml")),
    ("mongodb.yaml", include_str!("../../../examples/mongodb/mongodb.yaml")),
    ("operator.yaml", include_str!("../../../examples/mongodb/operator.yaml")),
];

/// What was found.
pub(super) struct Material {
    /// In the order of their names.
    mappings: Vec<Arc<Mapping>>,
    providers: Vec<ClusterProvider>,
    found: Vec<Found>,
    /// Toy operators, each with the path of its file.
    operators: Vec<(String, String)>,
    /// Toy clusters, likewise.
    clusters: Vec<(String, String)>,
    /// Documents that may be meant for one of those, and cannot be read.
    unreadable: Vec<String>,
    /// What is wrong with mappings.
    errors: Option<String>,
}

/// Reads a folder of mappings, what lies beside it, and what else the visitor names.
///
/// # Errors
/// For a path of the visitor's that cannot be read.
pub(super) fn read(mappings: &Path, named: &[PathBuf]) -> Result<Material, Misconfigured> {
    let own = inputs::read(&[mappings.to_owned()]).unwrap_or_default();
    let mut all = own.clone();
    for folder in BESIDE.iter().filter_map(|name| inputs::beside(mappings, name)).filter(|folder| folder.is_dir()) {
        // Nothing at all in it is no mistake.
        all.extend(inputs::read_material(&[folder]).unwrap_or_default());
    }
    for path in named {
        all.extend(inputs::read_material(std::slice::from_ref(path))?);
    }
    Ok(Material::of(own, &all))
}

/// The example that comes with the program.
pub(super) fn example() -> Material {
    let files = |files: &[(&str, &str)]| Files {
        readable: files.iter().map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec())).collect(),
        ..Files::default()
    };
    Material::of(files(&[("mongodb.yaml", MAPPING)]), &files(&EXAMPLE))
}

/// The schemas of that example.
pub(super) fn schemas() -> Schemas {
    let mut schemas = Schemas::default();
    EXAMPLE.iter().for_each(|(_, text)| drop(schemas.add_file(text.as_bytes())));
    schemas
}

impl Material {
    /// What none of the mappings can be played without; `None` where there is no mapping.
    pub fn lacks(&self) -> Option<String> {
        let served: Vec<String> = self.mappings.iter().map(|mapping| mapping.source.resource.to_string()).collect();
        let text = || {
            format!(
                "plays its own example, for no document beside the mappings defines {}: put an APIResourceSchema or a \
                 CustomResourceDefinition into a folder `schemas` beside them, or name it with -f",
                served.join(", ")
            )
        };
        (!served.is_empty()).then(text)
    }

    /// What is wrong where there are mappings, and none of them can be used.
    pub fn errors(&self) -> Option<&str> {
        self.errors.as_deref().filter(|_| self.mappings.is_empty())
    }

    /// The mappings of some files, and the documents of all.
    fn of(own: Files, all: &Files) -> Self {
        let is_own: BTreeSet<String> = own.readable.keys().cloned().collect();
        let catalog = inputs::catalog(&inputs::only_ours(own));
        let mut material = Self {
            mappings: catalog.mappings().map(|(_, entry)| entry.mapping.clone()).collect(),
            providers: catalog.providers().cloned().collect(),
            found: Vec::new(),
            operators: Vec::new(),
            clusters: Vec::new(),
            unreadable: Vec::new(),
            errors: inputs::errors(&catalog),
        };
        let given = all.readable.iter().filter(|(path, _)| !inputs::is_expected(path));
        given.for_each(|(path, content)| material.take(path, content, is_own.contains(path)));
        material
    }

    /// `is_own`: the file is one of the mappings', and the engine says what is wrong with it.
    fn take(&mut self, path: &str, content: &[u8], is_own: bool) {
        let folder = Path::new(path).parent().unwrap_or(Path::new("")).to_owned();
        let unreadable = |findings: Vec<Finding>| {
            let shown = findings.into_iter().map(|finding| Diagnostic::new(finding, path, content).render(false));
            unplayable(path)(shown.collect()).0
        };
        for document in yaml::parse_within(content, Limits::SCHEMAS) {
            let Some(root) = document.root else {
                let is_test = document.text.contains(document::API_VERSION) && !document.text.contains(API_VERSION);
                if !is_own && !is_test {
                    self.unreadable.push(unreadable(document.findings));
                }
                continue;
            };
            if inputs::is_ours(document.text.as_bytes()) {
                continue;
            }
            let kind = root.get("kind").filter(|kind| kind.as_str().is_none_or(|kind| !KINDS.contains(&kind)));
            let is_ours = root.get("apiVersion").and_then(|version| version.as_str()) == Some(API_VERSION);
            if let Some(kind) = kind.filter(|_| is_ours) {
                let message = format!("`{}` is not one of `{}`", kind.as_str().unwrap_or_default(), KINDS.join("`, `"));
                let help = yaml::meant(kind.as_str().unwrap_or_default(), &KINDS);
                let finding = Finding { help, ..Finding::new("SE0104", kind.headline(), message) };
                self.unreadable.push(unreadable(vec![finding]));
                continue;
            }
            let root = root.to_json();
            match root["kind"].as_str() {
                Some("ToyOperator") => self.operators.push((path.to_owned(), document.text.to_string())),
                Some("ToyCluster") => self.clusters.push((path.to_owned(), document.text.to_string())),
                Some("List") => {
                    let items = root["items"].as_array().into_iter().flatten();
                    self.found.extend(items.map(|item| found(&folder, item.clone())));
                }
                _ => self.found.push(found(&folder, root)),
            }
        }
    }

    /// What is played of it, by another operator if one is given; `None` where nothing can be.
    ///
    /// # Errors
    /// What is wrong with the documents.
    pub fn script(&self, operator: Option<Arc<ToyOperator>>) -> Result<Option<Script>, Misconfigured> {
        if !self.unreadable.is_empty() {
            return Err(Misconfigured(self.unreadable.join("\n\n")));
        }
        let operators = match operator {
            Some(operator) => vec![operator],
            None => self.operators.iter().map(|(path, text)| self::operator(path, text)).collect::<Result<_, _>>()?,
        };
        let clusters =
            self.clusters.iter().map(|(path, text)| ToyCluster::compile(path, text).map_err(unplayable(path)));
        let clusters = clusters.collect::<Result<_, _>>()?;
        let Self { mappings, providers, found, .. } = self;
        Script::of(Given { mappings, providers, clusters, operators, found }).map_err(Misconfigured)
    }
}

/// A toy operator of a file.
///
/// # Errors
/// What is wrong with it.
pub(super) fn operator(path: &str, text: &str) -> Result<Arc<ToyOperator>, Misconfigured> {
    ToyOperator::compile(path, text).map(Arc::new).map_err(unplayable(path))
}

fn unplayable(path: &str) -> impl Fn(Vec<String>) -> Misconfigured {
    move |problems| Misconfigured(format!("{path} cannot be played:\n{}", problems.join("\n")))
}

fn found(folder: &Path, document: Value) -> Found {
    Found { folder: folder.to_owned(), document }
}
