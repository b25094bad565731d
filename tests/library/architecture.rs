//! Promises that the compiler does not keep for us: which module may know which, what the repository must hold, and
//! that its documentation is true.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Parser;
use serde_json::Value;
use sync_engine::cli::Arguments;
use sync_engine::cli::arguments::MAX_ENGINE_ID;
use sync_engine::mapping::compile::MAX_MAPPING_NAME;
use sync_engine::yaml;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Modules without async, I/O, clock, randomness or environment. They come first in `src/lib.rs`.
const PURE: [&str; 6] = ["object", "plan", "release", "scaffold", "rights", "table"];

/// Crates of the workspace that are pure as well.
const PURE_CRATES: [&str; 1] = ["mapping"];

/// Modules that touch the world.
const SHELL: [&str; 7] = ["reload", "server", "engine", "survey", "telemetry", "story", "cli"];

/// Names of `src/lib.rs` for crates, and parts of crates, that touch the world.
const SHELL_CRATES: [&str; 4] = ["health", "multicluster", "provider", "sandbox"];

/// What a pure module must not name, beside the shell.
const IMPURE: [&str; 24] = [
    "tokio",
    "kube::",
    "hyper",
    "axum",
    "notify",
    "reqwest",
    "tracing",
    "anyhow",
    "async fn",
    ".await",
    "std::env",
    "std::fs",
    "std::net",
    "std::process",
    "std::thread",
    "std::io",
    "SystemTime",
    "Instant",
    "RandomState",
    "rand::",
    "getrandom",
    "println!",
    "eprintln!",
    "dbg!",
];

#[test]
fn pure_modules_name_nothing_of_the_shell() {
    let mut found = Vec::new();
    let mut check = |file: &Path, trespass: fn(&str) -> Option<&'static str>| {
        for (number, line) in code_lines(file) {
            found.extend(trespass(&line).map(|name| format!("{}:{number}: {name}: {}", short(file), line.trim())));
        }
    };
    PURE.iter().flat_map(|module| files_of(module)).for_each(|file| check(&file, trespass));
    // The compiler sees to it that they name nothing of the shell.
    let crates = PURE_CRATES.iter().map(|name| Path::new(ROOT).join("crates").join(name).join("src"));
    crates.flat_map(|folder| rust_files(&folder)).for_each(|file| check(&file, impurity));
    assert!(found.is_empty(), "pure modules must not use these:\n{}", found.join("\n"));
}

/// What of the shell's crates, or of the world, a line of a pure module names. The shell's modules are below it.
fn trespass(line: &str) -> Option<&'static str> {
    let roots = ["crate", "super::super"];
    let names = |module: &&&str| roots.iter().any(|root| line.contains(&format!("{root}::{module}")));
    SHELL_CRATES.iter().find(names).copied().or_else(|| impurity(line))
}

/// What of the world a line names.
fn impurity(line: &str) -> Option<&'static str> {
    IMPURE.iter().find(|name| mentions(line, name)).copied()
}

/// Whether the line has the name as a whole word, where it is one: `kube` is not in `kubectl`.
fn mentions(line: &str, name: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    line.match_indices(name).any(|(at, _)| {
        let (before, after) = (line[..at].bytes().last(), line.as_bytes().get(at + name.len()).copied());
        let starts = !is_word(name.as_bytes()[0]) || !before.is_some_and(is_word);
        let ends = !is_word(name.as_bytes()[name.len() - 1]) || !after.is_some_and(is_word);
        starts && ends
    })
}

#[test]
fn the_check_of_pure_modules_can_fail() {
    assert_eq!(trespass("use crate::sandbox::Sandbox;"), Some("sandbox"));
    assert_eq!(trespass("    let now = std::time::Instant::now();"), Some("Instant"));
    assert_eq!(trespass("pub async fn read() {}"), Some("async fn"));
    assert_eq!(trespass("    let value = kube::core::x();"), Some("kube::"));
    assert_eq!(trespass("    accepts(\"kubectl's spelling\")"), None);
    assert_eq!(trespass("use crate::mapping::Mapping;"), None);
}

#[test]
fn every_module_is_known_to_be_pure_or_shell() {
    let known = [&PURE[..], &SHELL[..]].concat();
    assert_eq!(modules(), known, "say in this file whether each is pure; those that are come first in src/lib.rs");
}

/// The modules in the reading order of `src/lib.rs`.
fn modules() -> Vec<String> {
    let lib = read("src/lib.rs");
    let declared = lib.lines().filter_map(|line| line.trim().strip_prefix("pub mod ")?.strip_suffix(';'));
    declared.map(str::to_owned).collect()
}

/// All lines count, those of tests too.
#[test]
fn modules_depend_on_those_above_them_alone() {
    let modules = modules();
    let mut found = Vec::new();
    for (rank, module) in modules.iter().enumerate() {
        let files = files_of(module);
        assert!(!files.is_empty(), "{module} has files");
        for file in files {
            let depth = depth(&file);
            for (index, line) in read(&file).lines().enumerate() {
                let below = named_modules(line, depth, &modules).into_iter().filter(|named| *named > rank);
                found.extend(below.map(|named| {
                    format!("{}:{}: {module} names {}: {}", short(&file), index + 1, modules[named], line.trim())
                }));
            }
        }
    }
    assert!(found.is_empty(), "a module depends only on modules above it in src/lib.rs:\n{}", found.join("\n"));
}

/// How many modules deep a file is: 1 for `src/plan.rs` and `src/plan/mod.rs`.
fn depth(file: &Path) -> usize {
    let parts = file.strip_prefix(Path::new(ROOT).join("src")).expect("a source file").components().count();
    if file.file_stem().is_some_and(|stem| stem == "mod") { parts - 1 } else { parts }
}

/// The positions of the top modules that a line of code names, from `crate` or by as many `super` as lead there.
fn named_modules(line: &str, depth: usize, modules: &[String]) -> Vec<usize> {
    let code = line.split("//").next().unwrap_or_default();
    let up = "super::".repeat(depth);
    let word =
        |text: &str| text.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default().to_owned();
    let mut named = Vec::new();
    for root in ["crate::", up.as_str()] {
        for (at, _) in code.match_indices(root) {
            let rest = &code[at + root.len()..];
            let group = rest.strip_prefix('{').map(|group| group.split('}').next().unwrap_or_default());
            let names: Vec<String> = match group {
                Some(group) => group.split(',').map(|part| word(part.trim())).collect(),
                None => vec![word(rest)],
            };
            named.extend(names.iter().filter_map(|name| modules.iter().position(|module| module == name)));
        }
    }
    named
}

#[test]
fn the_check_of_directions_can_fail() {
    let modules: Vec<String> = ["yaml", "mapping", "engine"].map(str::to_owned).to_vec();
    let named = |line: &str, depth| named_modules(line, depth, &modules);
    assert_eq!(named("use crate::engine::Worker;", 2), [2]);
    assert_eq!(named("    let x = crate::mapping::a(crate::engine::b());", 2), [1, 2]);
    assert_eq!(named("use crate::{engine, mapping::Mapping};", 2), [2, 1]);
    assert_eq!(named("use super::super::engine::Worker;", 2), [2]);
    assert_eq!(named("use super::engine::Worker;", 2), Vec::<usize>::new(), "a module of its own");
    assert_eq!(named("// crate::engine", 2), Vec::<usize>::new());
    assert_eq!(depth(&Path::new(ROOT).join("src/plan/tests/mod.rs")), 2);
}

#[test]
fn the_longest_names_fit_a_finalizer() {
    // A qualified name has 63 characters behind the slash (apimachinery's `IsQualifiedName`).
    let longest = MAX_ENGINE_ID + ".".len() + MAX_MAPPING_NAME;
    assert!(longest <= 63, "<engine>.<mapping> can have {longest} characters");
}

#[test]
fn anyhow_stays_on_the_command_line() {
    let others = rust_files(&Path::new(ROOT).join("src")).into_iter().filter(|file| !file.starts_with(cli()));
    let found: Vec<_> =
        others.filter(|file| code_lines(file).iter().any(|(_, line)| mentions(line, "anyhow"))).collect();
    assert!(found.is_empty(), "only src/cli uses anyhow: {found:?}");
}

fn cli() -> PathBuf {
    Path::new(ROOT).join("src/cli")
}

#[test]
fn every_file_begins_by_saying_what_it_is_for() {
    let files =
        ["src", "crates", "tests", "benches"].iter().flat_map(|folder| rust_files(&Path::new(ROOT).join(folder)));
    // A `tests.rs` is introduced by the file whose tests it holds.
    let silent = files.filter(|file| !is_tests(file) && !read(file).starts_with("//!"));
    let silent: Vec<_> = silent.map(|file| short(&file)).collect();
    assert!(silent.is_empty(), "these files need a `//!` that says what they are for: {silent:?}");
}

/// What else people look for, the links of the pages lead to, and tests read.
#[test]
fn the_workflow_runs_the_script_of_the_repository() {
    assert!(Path::new(ROOT).join(".ci/run").is_file(), ".ci/run is missing");
    assert!(read(".github/workflows/ci.yml").contains("run: .ci/run\n"), "the workflow runs the same script");
}

#[test]
fn consumers_order_what_the_operator_knows() {
    let operator = schema("crd.yaml", "/spec/versions/0/schema/openAPIV3Schema/properties");
    let consumer = schema("apiresourceschema.yaml", "/spec/versions/0/schema/properties");
    let mut offered = operator["spec"].clone();
    remove(&mut offered, "/properties", "statefulSet");
    remove(&mut offered, "/properties/users/items/properties", "connectionStringSecretNamespace");
    // What a tenant could run commands with has another schema for consumers.
    remove(&mut offered, "/properties", "additionalMongodConfig");
    let mut narrower = consumer["spec"].clone();
    remove(&mut narrower, "/properties", "additionalMongodConfig");
    unbound(&mut narrower, &offered);
    assert_eq!(narrower, offered, "the operator's spec but for what is dangerous, and with bounds");

    let mut status = consumer["status"].clone();
    remove(&mut status, "/properties", "conditions");
    remove(&mut status, "/properties", "observedGeneration");
    let mut reported = operator["status"].clone();
    remove(&mut reported, "", "required");
    assert_eq!(status, reported, "the operator's status with nothing required, conditions and a generation");
}

/// Takes off the bounds of texts, numbers and lists that the other schema does not have.
fn unbound(schema: &mut Value, other: &Value) {
    if let Value::Object(fields) = schema {
        if fields.get("type").is_some_and(Value::is_string) {
            let is_bound = |name: &str| matches!(name, "enum" | "pattern" | "maximum" | "maxItems");
            fields.retain(|name, _| !is_bound(name) || other.get(name).is_some());
        }
        fields.iter_mut().for_each(|(name, field)| unbound(field, &other[name.as_str()]));
    }
}

fn schema(file: &str, pointer: &str) -> Value {
    let text = read(Path::new("schemas/mongodb").join(file));
    let root = yaml::parse_one(&text).and_then(|document| document.root).expect("a document");
    root.to_json().pointer(pointer).expect("a schema").clone()
}

fn remove(schema: &mut Value, parent: &str, field: &str) {
    let parent = schema.pointer_mut(parent).and_then(Value::as_object_mut).expect("a parent");
    assert!(parent.remove(field).is_some(), "there is no `{field}` to leave out");
}

#[test]
fn the_commands_of_the_readme_exist() {
    let tests = command("tests");
    assert!(tests.starts_with("cargo test"), "{tests}");
    // It is played whole by tests/verbs/story.rs.
    let demo = command("demo");
    let words: Vec<_> = demo.split_whitespace().collect();
    let ["cargo", "run", "--", flags @ ..] = &words[..] else { panic!("not a run of ours: {demo}") };
    Arguments::try_parse_from([&["sync-engine"], flags].concat()).expect("the command line is understood");
}

/// The one line of the code block under `<!-- command: NAME -->`.
fn command(name: &str) -> String {
    let readme = read("README.md");
    let (_, block) = readme.split_once(&format!("<!-- command: {name} -->\n```sh\n")).expect("the command's block");
    block.lines().next().expect("a command").to_owned()
}

#[test]
fn the_page_about_the_shipped_mapping_explains_each_part() {
    let (shipped, page) = (read("mappings/mongodb.yaml"), read("examples/mongodb/MAPPING.md"));
    let parts: Vec<&str> = shipped.lines().filter_map(|line| line.trim_start().strip_prefix("- id: ")).collect();
    assert!(parts.len() > 6, "{parts:?}");
    let missing: Vec<_> = parts.iter().filter(|part| !page.contains(&format!("`{part}`"))).collect();
    assert!(missing.is_empty(), "examples/mongodb/MAPPING.md: {missing:?}");
}

/// The ways of an edit, a deletion, a reload and a moved target are lists of functions.
#[test]
fn the_page_about_the_architecture_names_functions_where_they_are() {
    let page = read("docs/internals/architecture.md");
    let named: Vec<(&str, &str)> = page
        .split('`')
        .skip(1)
        .step_by(2)
        .zip(page.split('`').skip(2).step_by(2))
        .filter_map(|(name, after)| Some((name, after.strip_prefix(" (")?.split_once(".rs)")?.0)))
        .filter(|(name, _)| name.chars().all(|letter| letter.is_ascii_lowercase() || letter == '_'))
        .collect();
    assert!(named.len() > 40, "{named:?}");
    for (name, file) in named {
        let text = read(format!("{file}.rs"));
        assert!(text.contains(&format!("fn {name}(")) || text.contains(&format!("fn {name}<")), "{name} in {file}.rs");
    }
}

#[test]
fn each_dependency_has_a_reason() {
    let crates = fs::read_dir(Path::new(ROOT).join("crates")).expect("the crates");
    let manifests = crates.map(|entry| entry.expect("a crate").path().join("Cargo.toml"));
    let names: BTreeSet<String> =
        manifests.chain([Path::new(ROOT).join("Cargo.toml")]).flat_map(|file| dependencies(&read(file))).collect();
    assert!(names.len() > 30, "{names:?}");
    let page = read("CONTRIBUTING.md");
    let (_, section) = page.split_once("## Dependencies\n").expect("the section");
    let named: BTreeSet<_> = section
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split(" |").next())
        .flat_map(|cell| cell.split(", "))
        .collect();
    let silent: Vec<_> = names.iter().filter(|name| !named.contains(name.as_str())).collect();
    assert!(silent.is_empty(), "no reason is given for {silent:?}");
}

/// The names in a manifest's table of dependencies, but for the crates of the workspace.
fn dependencies(manifest: &str) -> Vec<String> {
    let (_, table) = manifest.split_once("\n[dependencies]\n").expect("the dependencies");
    let (table, _) = table.split_once("\n[").expect("the next table");
    let names = table.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(" = "));
    let names = names.map(|(name, _)| name.trim_end_matches(".workspace").to_owned());
    names.filter(|name| !name.starts_with("sync-engine-")).collect()
}

fn files_of(module: &str) -> Vec<PathBuf> {
    let source = Path::new(ROOT).join("src");
    let file = source.join(format!("{module}.rs"));
    let mut files = rust_files(&source.join(module));
    files.extend(file.is_file().then_some(file));
    files
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut files: Vec<_> = paths
        .flat_map(|path| if path.is_dir() { rust_files(&path) } else { vec![path] })
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .collect();
    files.sort();
    files
}

/// Lines of a file without its tests and comments, and their numbers.
fn code_lines(file: &Path) -> Vec<(usize, String)> {
    let text = if is_tests(file) { String::new() } else { read(file) };
    without_tests(&text)
        .map(|(number, line)| (number, line.split("//").next().unwrap_or_default().to_owned()))
        .collect()
}

/// Lines, numbered, without the items that are compiled for tests alone: what stands behind such an item counts.
fn without_tests(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut lines = text.lines().enumerate().map(|(index, line)| (index + 1, line));
    std::iter::from_fn(move || {
        loop {
            let (number, line) = lines.next()?;
            let Some(indent) = line.strip_suffix("#[cfg(test)]") else { return Some((number, line)) };
            let end = format!("{indent}}}");
            let attributes = |line: &str| line.trim_start().starts_with("#[");
            let (_, item) = lines.find(|(_, line)| !attributes(line))?;
            if !item.ends_with([';', ',', '}']) {
                lines.find(|(_, line)| line.starts_with(&end))?;
            }
        }
    })
}

#[test]
fn code_behind_tests_is_looked_at() {
    let code = |text: &'static str| without_tests(text).map(|(number, _)| number).collect::<Vec<_>>();
    assert_eq!(code("use a;\n#[cfg(test)]\nmod tests;\nuse b;\n"), [1, 4]);
    assert_eq!(code("#[cfg(test)]\nmod tests {\n    fn a() {\n    }\n}\nuse b;\n"), [6]);
    assert_eq!(
        code("impl A {\n    #[cfg(test)]\n    #[must_use]\n    fn a(\n    ) {\n    }\n    fn b() {}\n}\n"),
        [1, 7, 8]
    );
    assert_eq!(code("use a;\n#[cfg(test)]\nmod tests {\n    use b;\n}\n"), [1]);
}

fn is_tests(file: &Path) -> bool {
    file.file_stem().is_some_and(|stem| stem == "tests")
}

fn short(file: &Path) -> String {
    file.strip_prefix(ROOT).unwrap_or(file).display().to_string()
}

fn read(path: impl AsRef<Path>) -> String {
    let path = Path::new(ROOT).join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
