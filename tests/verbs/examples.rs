//! The folders under `examples/`: each validates without a word, renders what its tests say, and is played whole.

use std::fs;
use std::path::Path;

use super::{ROOT, program, read, run, shown};

/// A folder, and where its parts stand.
struct Example {
    name: String,
    schemas: String,
    /// Objects, tests and the operator.
    examples: String,
}

/// All of them, by name.
fn examples() -> Vec<Example> {
    let entries = fs::read_dir(Path::new(ROOT).join("examples")).expect("the examples");
    let folders = entries.map(|entry| entry.expect("an entry")).filter(|entry| entry.path().is_dir());
    let mut names: Vec<String> = folders.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names.into_iter().map(Example::named).collect()
}

impl Example {
    /// The first example has its parts where the program's defaults look; the others stand for themselves.
    fn named(name: String) -> Self {
        let (schemas, examples) = match name.as_str() {
            "mongodb" => ("schemas/mongodb".to_owned(), "examples/mongodb".to_owned()),
            _ => (format!("examples/{name}/schemas"), format!("examples/{name}/examples")),
        };
        Self { name, schemas, examples }
    }
}

/// Those whose sources are on clusters, and in no workspace of a kcp.
const FLEETS: [&str; 1] = ["fleet"];

/// What the command line names for an example.
fn folder(name: &str) -> String {
    if name == "mongodb" { "mappings".to_owned() } else { format!("examples/{name}") }
}

#[test]
fn there_are_many_and_the_index_names_each() {
    let examples = examples();
    assert!(examples.len() >= 8, "{}", examples.len());
    let index = read("examples/README.md");
    for Example { name, examples, .. } in &examples {
        assert!(index.contains(&format!("[{name}]({name}/README.md)")), "examples/README.md lacks {name}");
        assert!(Path::new(ROOT).join("examples").join(name).join("README.md").is_file(), "{name} is explained");
        // kcp itself plays the operator of a Workspace.
        let parts = if name == "account" { &["testdata"][..] } else { &["operator.yaml", "testdata"] };
        for part in parts {
            assert!(Path::new(ROOT).join(examples).join(part).exists(), "{examples} lacks {part}");
        }
    }
}

/// A kind that it reads or writes, and that no schema describes, would be a warning.
#[test]
fn each_validates_without_a_word() {
    for Example { name, .. } in examples() {
        let said = shown(&["validate", &folder(&name)]);
        let is_one_line = said.lines().count() == 2;
        assert!(is_one_line && said.starts_with("exit 0\n") && said.ends_with(", nothing wrong\n"), "{name}: {said}");
    }
}

/// Each kind of provider that runs is in the example, and explained on the page.
#[test]
fn a_fleet_has_every_kind_of_provider() {
    let (page, providers) = (read("docs/providers.md"), read("examples/fleet/mappings/providers.yaml"));
    let table = page.split("|---|---|\n").nth(1).expect("the table of kinds");
    let rows = table.lines().map_while(|line| line.strip_prefix("| `")?.split_once('`'));
    let mut explained: Vec<&str> = rows.map(|(key, _)| key).collect();
    let keys = providers.split("spec:\n  ").skip(1).filter_map(|spec| spec.split_once(':'));
    let mut shown: Vec<&str> = keys.map(|(key, _)| key).collect();
    shown.sort_unstable();
    explained.sort_unstable();
    assert_eq!(shown, explained);
    for key in explained {
        assert!(
            page.contains(&format!("spec:\n  {key}:")) || key == "kubeconfig",
            "no section of the page shows `{key}`"
        );
    }
}

#[test]
fn each_renders_what_its_tests_say_and_they_reach_all_of_it() {
    // The tests of the first one are run by tests/verbs/main.rs.
    for Example { name, .. } in examples().into_iter().filter(|one| one.name != "mongodb") {
        let output = program::output(&Path::new(ROOT).join(folder(&name)), &["test", "--min-coverage", "100"]);
        let said = program::text(&output);
        assert!(output.status.success() && said.contains(" (examples/"), "{name}: {said}");
    }
}

/// Without a word of what cannot be played; two consumers order, or everybody in a fleet, and read that what they ordered is ready.
#[test]
fn each_is_played_whole() {
    for Example { name, .. } in examples() {
        let text = shown(&["sandbox", &folder(&name), "--exit-when-synced"]);
        assert!(text.starts_with("exit 0\n"), "{name}: {text}");
        let all = if FLEETS.contains(&name.as_str()) { "6 of 6 " } else { "2 of 2 " };
        assert!(text.contains(all), "{name}: {text}");
        for word in ["not played", "cannot go on", "keeps what ran", "error"] {
            assert!(!text.contains(word), "{name}: {text}");
        }
    }
}

/// Where an API is said in short, kcp's documents are the ones that follow from it.
#[test]
fn what_follows_from_a_short_schema_is_fresh() {
    let short = |one: &Example| Path::new(ROOT).join(&one.schemas).join("apischema.yaml").is_file();
    let all: Vec<Example> = examples().into_iter().filter(short).collect();
    assert!(all.len() >= 3, "{}", all.len());
    for Example { name, schemas, .. } in all {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let (source, place) = (Path::new(&schemas), folder.path().join("apischema.yaml"));
        fs::write(&place, read(source.join("apischema.yaml"))).expect("a copy");
        assert!(run(&["schema", "build", &place.display().to_string()]).status.success(), "{name}");
        for file in ["apiresourceschema.yaml", "apiexport.yaml"] {
            let say = format!("run: sync-engine schema build {schemas}/apischema.yaml");
            assert_eq!(read(folder.path().join(file)), read(source.join(file)), "{say}");
        }
    }
}

#[test]
fn render_shows_in_which_step_each_object_appears() {
    let steps = |mapping: &str, source: &str| {
        let output = run(&["render", mapping, "-f", source, "--steps", "--no-marks"]);
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let told = |document: &str| {
            let of =
                |start: &str| document.lines().find_map(|line| line.strip_prefix(start)).unwrap_or_default().to_owned();
            format!("{}: {} {}", of("# step: "), of("kind: "), of("  name: "))
        };
        text.split("---\n").map(told).collect::<Vec<_>>()
    };
    let source = "examples/keycloak/examples/identity.yaml";
    let keycloak = steps("examples/keycloak", source);
    assert_eq!(
        keycloak,
        ["1: Secret shop-admin", "1: Secret shop-database", "2: Keycloak shop", "3: Secret shop-admin"]
    );
    // What `dependsOn` names stands before it in the mapping, and is a step of its own all the same.
    let kafka = steps("examples/kafka", "examples/kafka/examples/cluster.yaml");
    let of_kinds: Vec<_> = kafka.iter().filter_map(|told| told.rsplit_once(' ')).map(|(kind, _)| kind).collect();
    let (first, pool, topic, user) = ("1: Kafka", "1: KafkaNodePool", "2: KafkaTopic", "2: KafkaUser");
    assert_eq!(of_kinds, [first, pool, pool, topic, topic, user, user]);
    let with_status = run(&["render", "examples/keycloak", "-f", source, "--steps", "--status"]);
    assert_eq!(with_status.status.code(), Some(2), "a status is of no step");
}
