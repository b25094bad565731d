//! What the mapping language costs: `cargo bench --bench mapping`.
//!
//! Rendering the shipped MongoDB mapping for one source, loading and checking a thousand mappings with their schemas, and
//! reloading one of the thousand. Each figure is the median of its repetitions, on one thread.

use std::collections::BTreeMap;
use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use sync_engine::catalog::{Catalog, Files};
use sync_engine::mapping::Mapping;
use sync_engine::mapping::compile::{Compiled, compile};
use sync_engine::mapping::schema::Schemas;
use sync_engine::object::ClusterName;
use sync_engine::plan::preview::{Scene, preview};
use sync_engine::plan::render::render;
use sync_engine::yaml;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const MAPPINGS: usize = 1_000;
/// A file has at most 1 MiB.
const PER_FILE: usize = 100;

fn main() {
    rendering();
    loading("in a file each", numbered, 0, |mappings| {
        let file = |(index, text): (usize, &String)| (format!("m{index}.yaml"), text.clone().into_bytes());
        mappings.iter().enumerate().map(file).collect()
    });
    loading("in files of a hundred", numbered, 0, in_files);
    loading("in files of a hundred, with a warning each", warned, MAPPINGS, in_files);
}

fn in_files(mappings: &[String]) -> BTreeMap<String, Vec<u8>> {
    let file = |(index, texts): (usize, &[String])| (format!("f{index}.yaml"), texts.join("---\n").into_bytes());
    mappings.chunks(PER_FILE).enumerate().map(file).collect()
}

fn rendering() {
    let mapping = mapping(&read("mappings/mongodb.yaml"));
    let scene = scene(&read("examples/mongodb/mongodb.yaml"));
    let observed = scene.observed(&mapping);
    let source = &scene.source;
    print("render the MongoDB mapping", 20_000, || {
        black_box(render(&mapping, &observed, source).expect("it renders"));
    });
    print("the same as the preview shows it, with its status", 5_000, || {
        black_box(preview(&mapping, &scene).expect("it renders"));
    });
}

fn loading(
    how: &str,
    text: fn(usize) -> String,
    warnings: usize,
    spread: impl Fn(&[String]) -> BTreeMap<String, Vec<u8>>,
) {
    let texts: Vec<String> = (0..MAPPINGS).map(text).collect();
    let schemas = schemas();
    let files = |texts: &[String]| Files { readable: spread(texts), ..Files::default() };
    let whole = files(&texts);
    print(&format!("check {MAPPINGS} mappings with schemas, {how}"), 5, || {
        let (catalog, _) = Catalog::checking(schemas.clone()).update(&whole, &BTreeMap::new());
        assert_eq!((catalog.mappings().count(), catalog.diagnostics().len()), (MAPPINGS, warnings));
    });
    let (catalog, _) = Catalog::checking(schemas).update(&whole, &BTreeMap::new());
    let mut edited = texts.clone();
    edited[500] = edited[500].replace("description: ", "description: Changed, ");
    let edited = files(&edited);
    print(&format!("reload one of {MAPPINGS}, {how}"), 20, || {
        let (_, update) = catalog.update(&edited, &BTreeMap::new());
        assert_eq!(update.changes.len(), 1, "{:?}", update.changes);
    });
}

/// The shipped mapping under another name and for an export of its own.
fn numbered(index: usize) -> String {
    let text = read("mappings/mongodb.yaml");
    let text = text.replace("  name: mongodb\nspec:", &format!("  name: mongodb-{index}\nspec:"));
    text.replace("apiExport: {name: mongodb,", &format!("apiExport: {{name: mongodb-{index},"))
}

/// The same with something that a consumer could reach.
fn warned(index: usize) -> String {
    let object = "  objects:\n    - id: note\n      template: {apiVersion: v1, kind: ServiceAccount, spec: {namespace: '{{ source.metadata.name }}'}}\n";
    numbered(index).replacen("  objects:\n", object, 1)
}

fn schemas() -> Schemas {
    let mut schemas = Schemas::default();
    for file in ["apiresourceschema.yaml", "crd.yaml"] {
        assert_eq!(schemas.add_file(read(&format!("schemas/mongodb/{file}")).as_bytes()), []);
    }
    schemas
}

fn mapping(text: &str) -> Arc<Mapping> {
    match compile(&yaml::parse_one(text).expect("a document")).compiled {
        Some(Compiled::Mapping(mapping)) => mapping,
        other => panic!("no mapping: {other:?}"),
    }
}

fn scene(text: &str) -> Scene {
    let mut source: Value = yaml::parse_one(text).and_then(|document| document.root).expect("an object").to_json();
    source["metadata"]["uid"] = "3f1c7a52-6c0b-4a58-9d5e-0e8f7e2a9d11".into();
    Scene {
        engine: "main".into(),
        cluster: ClusterName::try_from("2xcau5l8pb5n4bev").expect("a name"),
        workspace_path: Some("root:orgs:acme".into()),
        source: Arc::new(source),
        standing: Vec::new(),
        related: Vec::new(),
        steps: 0,
        schema: None,
    }
}

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(ROOT).join(path)).expect("part of the repository")
}

fn print(what: &str, repetitions: usize, mut once: impl FnMut()) {
    once();
    let mut times: Vec<Duration> = (0..repetitions)
        .map(|_| {
            let started = Instant::now();
            once();
            started.elapsed()
        })
        .collect();
    times.sort();
    println!("{what}: {:.1?}", times[repetitions / 2]);
}
