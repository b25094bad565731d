//! The program as its users meet it: verbs, signals, the sandbox, the examples, and the pages that describe all of it.

mod cli;
mod completions;
mod coverage;
mod diff;
mod doctor;
mod documentation;
mod examples;
mod init;
mod live;
mod orphans;
mod program;
mod provenance;
mod rbac;
mod scene;
mod schemas;
mod several_targets;
mod story;
mod targets;
mod trace;
mod uninstall;
mod watch;

use std::fs;
use std::path::Path;
use std::process::{Output, Stdio};

use insta::assert_snapshot;
use sync_engine::mapping::document::json_schema;
use tempfile::TempDir;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// The built binary at the top of the repository, in an environment that says nothing.
fn run(arguments: &[&str]) -> Output {
    program::output(Path::new(ROOT), arguments)
}

/// Everything that a user sees, with the exit code.
fn shown(arguments: &[&str]) -> String {
    let output = run(arguments);
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let errors = if stderr.is_empty() { String::new() } else { format!("stderr:\n{stderr}") };
    format!("exit {}\n{stdout}{errors}", output.status.code().expect("an exit code"))
}

/// The same with the temporary directory's path replaced.
fn shown_in(root: &TempDir, arguments: &[&str]) -> String {
    let path = root.path().display().to_string();
    let arguments: Vec<String> = arguments.iter().map(|argument| argument.replace("ROOT", &path)).collect();
    shown(&arguments.iter().map(String::as_str).collect::<Vec<_>>()).replace(&path, "ROOT")
}

/// The same of several command lines, one after the other.
fn said<const N: usize>(root: &TempDir, lines: [&str; N]) -> String {
    lines.map(|line| shown_in(root, &line.split(' ').collect::<Vec<_>>())).concat()
}

/// A text file, of the repository where its path is no other.
fn read(path: impl AsRef<Path>) -> String {
    let path = Path::new(ROOT).join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn directory(files: &[(&str, &str)]) -> TempDir {
    let root = tempfile::tempdir().expect("a temporary directory");
    for (name, content) in files {
        let path = root.path().join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
        fs::write(path, content).expect("a file");
    }
    root
}

const GOOD: &str = "\
apiVersion: sync-engine.dev/v1alpha1
kind: Mapping
metadata: {name: databases}
spec:
  source:
    apiExport: {name: databases, path: root:databases}
    resource: databases.v1.example.dev
    selector: {matchLabels: {tier: managed}}
  objects:
    - id: db
      template: {apiVersion: example.dev/v1, kind: Cluster, spec: {size: '${{ source.spec.size }}'}}
  status:
    from: db
    fields:
      phase: {path: $.status.phase, default: Pending}
";

const SOURCE: &str = "\
apiVersion: example.dev/v1
kind: Database
metadata: {name: a, namespace: default, labels: {tier: managed}}
spec: {size: 3}
";

/// The good mapping under another name, with two mistakes.
fn broken() -> String {
    GOOD.replace("name: databases}\n", "name: broken}\n").replace("source.spec", "sauce.spec").replace("from:", "form:")
}

#[test]
fn validate_counts_what_an_engine_would_run() {
    let several = GOOD.replace("name: databases}\n", "name: several}\n").replace("$.status.phase", "$.status.x[*]");
    let root = directory(&[("maps/good.yaml", GOOD), ("maps/several.yaml", &several)]);
    let shown = shown_in(&root, &["validate", "ROOT/maps"]);
    assert!(shown.ends_with("1 error in 2 files; 1 good mapping\n"), "{shown}");
}

#[test]
fn validate_says_everything_at_once() {
    let root = directory(&[("maps/good.yaml", GOOD), ("maps/broken.yaml", &broken()), ("maps/deep/none.yml", "a: [")]);
    assert_snapshot!("validate-text", shown_in(&root, &["validate", "ROOT/maps"]));
    assert_snapshot!("validate-github", shown_in(&root, &["validate", "ROOT/maps", "-o", "github"]));
    let output = run(&["validate", "-o", "json", &root.path().join("maps").display().to_string()]);
    assert_eq!(output.status.code(), Some(1));
    let findings: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one JSON value");
    let codes: Vec<_> = findings.as_array().expect("a list").iter().map(|one| one["code"].clone()).collect();
    assert_eq!(codes, ["SE0301", "SE0101", "SE0001"], "{findings:#}");
}

#[test]
fn validate_finds_schemas_beside_the_mappings() {
    let schema = read("tests/ui/checks/schemas/database.yaml");
    let wrong =
        GOOD.replace("databases.v1.example.dev", "databases.v1.example.com").replace("source.spec.", "source.spec.no_");
    let syntax = "\n---\napiVersion: sync-engine.dev/v1alpha1\nkind: Mapping\nmetadata: {name: syntax\n---\n";
    let provided = wrong.replace("name: databases}\n", "name: provided}\n");
    let provided = provided.replace("apiExport: {name: databases, path: root:databases}", "provider: nowhere");
    let all = format!("{wrong}{syntax}{provided}");
    let root = directory(&[("maps/all.yaml", &all), ("schemas/database.yaml", &schema)]);
    let shown = shown_in(&root, &["validate", "ROOT/maps"]);
    assert_eq!(shown.matches("error[SE0401]").count(), 2, "a neighbour's errors hide none: {shown}");
    assert!(shown.contains("error[SE0001]") && !shown.contains("types were not checked"), "{shown}");
    fs::remove_dir_all(root.path().join("schemas")).expect("a folder");
    let shown = shown_in(&root, &["validate", "ROOT/maps"]);
    assert!(!shown.contains("error[SE0401]") && shown.contains("types were not checked"), "{shown}");
}

#[test]
fn formats_are_the_same_everywhere() {
    let root = directory(&[("maps/broken.yaml", &broken()), ("source.yaml", SOURCE)]);
    let table = shown_in(&root, &["validate", "ROOT/maps", "-o", "table"]);
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_snapshot!(table.lines().map(words).collect::<Vec<_>>().join("\n"), @"
    exit 1
    PLACE SEVERITY CODE MESSAGE
    ROOT/maps/broken.yaml:11:79 error SE0301 `sauce` is not known
    ROOT/maps/broken.yaml:13:5 error SE0101 unknown field `form`
    ");
    let yaml = shown_in(&root, &["validate", "ROOT/maps", "-o", "yaml"]);
    assert!(yaml.starts_with("exit 1\n") && yaml.contains("code: SE0301\n"), "{yaml}");
    for format in ["text", "table", "yaml", "json"] {
        for verb in [&["render", "-f", "examples/mongodb/mongodb.yaml"][..], &["rbac"], &["test", "examples/redis"]] {
            let output = run(&[verb, &["-o", format]].concat());
            assert!(output.status.success() && !output.stdout.is_empty(), "{verb:?} {format}");
        }
    }
    assert_snapshot!(shown(&["rbac", "-o", "github"]), @"
    exit 2
    stderr:
    error: invalid value 'github' for '--output <OUTPUT>'
      [possible values: text, table, yaml, json, values]

    For more information, try '--help'.
    ");
}

/// A folder with `mappings`, `schemas` and `examples` is one argument.
#[test]
fn one_argument_names_mappings_schemas_and_examples() {
    let verbs: [&[&str]; 3] = [&["validate"], &["test"], &["render", "-f", "examples/redis/examples/cache.yaml"]];
    for verb in verbs {
        let whole = run(&[verb, &["examples/redis"]].concat());
        let inside = [verb, &["examples/redis/mappings", "--schemas", "examples/redis/schemas"]].concat();
        let tests: &[&str] = if verb == ["test"] { &["examples/redis/examples"] } else { &[] };
        let parts = run(&[&inside[..], tests].concat());
        assert!(whole.status.success(), "{verb:?}: {}", String::from_utf8_lossy(&whole.stderr));
        assert_eq!(String::from_utf8_lossy(&whole.stdout), String::from_utf8_lossy(&parts.stdout), "{verb:?}");
    }
}

/// A Pod's own cluster is no default.
#[test]
fn a_connection_that_nobody_named_is_an_error_in_a_pod_too() {
    let mut command = program::command(Path::new(ROOT), &["diff"]);
    command.env("KUBERNETES_SERVICE_HOST", "127.0.0.1").env("KUBERNETES_SERVICE_PORT", "1");
    let output = command.output().expect("the binary starts");
    assert_eq!(output.status.code(), Some(3));
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("no kubeconfig is given for the connection `target`"), "{error}");
}

#[test]
fn validate_needs_something_to_read() {
    let root = directory(&[("empty/notes.md", "")]);
    let lines = ["validate ROOT/empty", "validate ROOT/nothing.yaml", "validate mappings --schemas ROOT/nothing"];
    assert_snapshot!(said(&root, lines).replace("exit 3\nstderr:\n", ""), @"
    error: there is no *.yaml or *.yml in `ROOT/empty`
    error: cannot read `ROOT/nothing.yaml`: it does not exist
    error: cannot read the folder of schemas `ROOT/nothing` (--schemas): it does not exist; create it, or name another
    ");
}

#[test]
fn explain_knows_every_word_it_lists() {
    let list = shown(&["explain"]);
    let words: Vec<&str> = list.lines().skip(1).filter_map(|line| line.split(' ').next()).collect();
    for word in ["SE0101", "Conflict", "SyncEngineDown"] {
        assert!(words.contains(&word), "{list}");
    }
    for word in words {
        assert!(run(&["explain", word]).status.success(), "{word}");
    }
    let shown: Vec<&str> = list
        .lines()
        .filter(|line| ["SE0101", "Confl", "SyncEngineD", "SyncEngineEdit"].iter().any(|one| line.starts_with(one)))
        .collect();
    assert_snapshot!(shown.join("\n"), @"
    SE0101 error   a field that does not exist
    Conflict         reason  a foreign object has the namespace and name of a target object
    SyncEngineDown                   alert   No replica can be scraped, so nothing is synced
    SyncEngineDocumentRefused        alert   An edit has errors, and the last good version runs; or it names other sources (docs/changing.md#what-an-edit-does)
    SyncEngineEditHeld               alert   By an edit of a mapping, more sources would fail than `release.maxFailing` allows, or more objects be lost than `release.maxLost` does; or so by its removal
    ");
}

#[test]
fn explain_takes_reasons_and_alerts() {
    let lines = ["explain TargetChanged", "explain syncenginemappingbroken"];
    assert_snapshot!(said(&directory(&[]), lines), @"
    exit 0
    reason TargetChanged of the condition `Synced`: the connection leads to another cluster than before; the engine writes nothing

    What to do: give the right kubeconfig, or see Another target (docs/operations.md#another-target)

    To look: sync-engine status --reason TargetChanged; sync-engine trace MAPPING WORKSPACE NAMESPACE/NAME
    exit 0
    alert SyncEngineMappingBroken

    More than half of the sources of a mapping are not in sync, without those that left its filter (`Retained`) and those that it only observes (`Observed`).
    `sync-engine status --mapping NAME` lists them with their reasons: one reason for nearly all of them is the mapping or its target, not the tenants (unless one
    tenant has most sources). Reasons (docs/reference.md#reasons) has what to do for each. Was the mapping edited? Go back to the former file first.
    ");
}

#[test]
fn explain_names_the_nearest_words() {
    let lines = ["explain se01O1", "explain Conflicts", "explain SyncEngineEditHold", "explain everything"];
    assert_snapshot!(said(&directory(&[]), lines).replace("exit 2\nstderr:\n", ""), @"
    error: there is no code, reason or alert `se01O1`; did you mean SE0101, SE0111, SE0121? `sync-engine explain` lists them all
    error: there is no code, reason or alert `Conflicts`; did you mean Conflict? `sync-engine explain` lists them all
    error: there is no code, reason or alert `SyncEngineEditHold`; did you mean SyncEngineEditHeld, SyncEngineDown? `sync-engine explain` lists them all
    error: there is no code, reason or alert `everything`; `sync-engine explain` lists them all
    ");
}

#[test]
fn render_prints_the_objects_of_the_shipped_mapping() {
    let source = "examples/mongodb/mongodb.yaml";
    let place = ["--workspace-cluster", "abc123", "--workspace-path", "root:orgs:acme"];
    let text = shown(&[&["render", "-f", source], &place[..]].concat());
    // Shared by all sources, and of one source; all of them are in the golden files of the example.
    let documents: Vec<&str> = text.split("---\n").collect();
    assert_snapshot!("render-yaml", [documents[0], documents[documents.len() - 1]].join("---\n"));
    let flags = ["--no-marks", "--status", "-o", "json"];
    let output = run(&[&["render", "-f", source], &place[..], &flags[..]].concat());
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(!text.contains("sync-engine"), "{text}");
    let list: serde_json::Value = serde_json::from_str(&text).expect("one JSON value");
    assert_eq!(list["kind"], "List");
    let kinds: Vec<_> = list["items"].as_array().expect("a list").iter().map(|one| one["kind"].clone()).collect();
    let [account, database] = ["ServiceAccount", "MongoDBCommunity"];
    assert_eq!(kinds, [account, account, "Role", "RoleBinding", database, database]);
    assert_eq!(list["items"][5]["status"]["phase"], "Pending", "the consumer's object is the last");
}

#[test]
fn render_reads_what_stands() {
    let standing = "{apiVersion: example.dev/v1, kind: Cluster, metadata: {name: a}, status: {phase: Up}}";
    let other = "{apiVersion: v1, kind: Pod, metadata: {name: b}}";
    let root = directory(&[
        ("maps/a.yaml", GOOD),
        ("source.yaml", SOURCE),
        ("observed.yaml", &format!("{standing}\n---\n{other}\n")),
    ]);
    let line = "render ROOT/maps -f ROOT/source.yaml --no-marks --observed ROOT/observed.yaml";
    assert_snapshot!("render-observed", said(&root, [line]));
}

#[test]
fn render_reads_what_is_related() {
    let related = "  related:
    - {id: login, direction: ToTarget, resource: secrets.v1, from: {name: login}, data: {include: [user]}}
  objects:
    - id: settings
      template: {apiVersion: v1, kind: ConfigMap, data: {user: '${{ related.login.data.user }}'}}
";
    let mapping = GOOD.replace("  objects:\n", related);
    let secret =
        "{apiVersion: v1, kind: Secret, metadata: {name: login, namespace: default}, data: {user: YQ==, key: Yg==}}";
    let root = directory(&[("maps/a.yaml", &mapping), ("source.yaml", SOURCE), ("secret.yaml", secret)]);
    assert_snapshot!(said(&root, ["render ROOT/maps -f ROOT/source.yaml --no-marks"]), @r"
    exit 0
    apiVersion: example.dev/v1
    kind: Cluster
    metadata:
      name: a
      namespace: default-dxrcslzy2prezvhl
    spec:
      size: 3
    stderr:
    Database default/a: Waiting: related object `login`: secrets default/login does not exist in the consumer's cluster
    Database default/a: Waiting: object `settings`: related object `login` (read at `data.user`)
    ");
    let given = ["render ROOT/maps -f ROOT/source.yaml --no-marks --related ROOT/secret.yaml"];
    assert_snapshot!(said(&root, given), @r#"
    exit 0
    apiVersion: v1
    data:
      user: "YQ=="
    kind: ConfigMap
    metadata:
      name: a
      namespace: default-dxrcslzy2prezvhl
    ---
    apiVersion: example.dev/v1
    kind: Cluster
    metadata:
      name: a
      namespace: default-dxrcslzy2prezvhl
    spec:
      size: 3
    ---
    apiVersion: v1
    data:
      user: "YQ=="
    kind: Secret
    metadata:
      name: login
      namespace: default-dxrcslzy2prezvhl
    type: Opaque
    "#);
    fs::write(root.path().join("secret.yaml"), secret.replace("YQ==", "plain")).expect("a file");
    let plain = said(&root, given);
    assert!(plain.starts_with("exit 3\n") && plain.contains("data.user: no base64; text goes into"), "{plain}");
    let missing = said(&root, ["render ROOT/maps -f ROOT/source.yaml --related ROOT/nothing.yaml"]);
    assert!(missing.starts_with("exit 3\n") && missing.contains("cannot read `ROOT/nothing.yaml`"), "{missing}");
}

#[test]
fn render_says_why_there_is_nothing() {
    let root = directory(&[
        ("maps/a.yaml", GOOD),
        ("bad/a.yaml", &broken()),
        ("filtered.yaml", &SOURCE.replace("managed", "free")),
        ("failing.yaml", &SOURCE.replace("size", "sise")),
        ("other.yaml", "{apiVersion: v1, kind: Secret, metadata: {name: b}}"),
        ("nothing.yaml", "{kind: Secret}"),
        ("broken.yaml", "a: b\n c: d\n"),
    ]);
    let lines = [
        "render ROOT/maps -f ROOT/filtered.yaml",
        "render ROOT/maps -f ROOT/failing.yaml",
        "render ROOT/maps -f ROOT/other.yaml",
        "render ROOT/maps -f ROOT/nothing.yaml",
        "render ROOT/maps -f ROOT/broken.yaml",
        "render ROOT/maps -f ROOT/failing.yaml --mapping database",
    ];
    assert_snapshot!(said(&root, lines), @"
    exit 0
    stderr:
    Database default/a: left alone, for the filter of mapping `databases` excludes it
    exit 1
    stderr:
    Database default/a: RenderFailed: object `db`: spec.size: `source.spec.size` is absent: give a value with `default(...)`, leave the key out with `default(omit)`, or test it with `is defined`
    exit 3
    stderr:
    error: no mapping takes Secret b (v1); the mappings take databases.v1.example.dev
    exit 3
    stderr:
    error: `ROOT/nothing.yaml` holds no Kubernetes object: `apiVersion`, `kind` and `metadata.name` are needed
    exit 3
    stderr:
    error: `ROOT/broken.yaml` holds no Kubernetes object

    error[SE0001]: a `: ` cannot stand here
     --> ROOT/broken.yaml:2:3
      |
    2 |  c: d
      |   ^
      |
      = help: quote the text that holds it, or check the indentation of this line
    exit 3
    stderr:
    error: there is no good mapping `database`; there is `databases`
    ");
    // What is wrong may be why.
    fs::copy(root.path().join("bad/a.yaml"), root.path().join("maps/broken.yaml")).expect("a file");
    for line in ["render ROOT/maps -f ROOT/failing.yaml --mapping broken", "render ROOT/maps -f ROOT/other.yaml"] {
        let mixed = said(&root, [line]);
        assert!(
            mixed.contains("; the") && mixed.contains("error[SE0301]") && mixed.contains("maps/broken.yaml"),
            "{mixed}"
        );
    }
    let bad = said(&root, ["render ROOT/bad -f ROOT/failing.yaml"]);
    assert!(bad.starts_with("exit 3\n") && bad.contains("no mapping in `ROOT/bad` can be used"), "{bad}");
}

#[test]
fn the_shipped_tests_pass() {
    let test = ["test", "examples/mongodb", "mappings", "--schemas", "schemas", "--min-coverage", "100"];
    let said = shown(&test);
    assert!(said.starts_with("exit 0\n") && said.ends_with(" cases passed, 0 failed\n"), "{said}");
}

const TEST: &str = "\
apiVersion: sync-engine.dev/v1alpha1
kind: MappingTest
metadata: {name: sizes}
spec:
  mapping: databases
  cases:
    - name: holds
      source: source.yaml
      expect: {objects.db.spec: {size: 3}, objects.db.spec.plan: null}
      expectStatus: {phase: Pending}
    - name: does not hold
      source: source.yaml
      observed: [{apiVersion: v1, kind: Pod, metadata: {name: b}}]
      expect: {objects.db.spec.size: '3', objects.cache.spec: {}, 'objects[': 1}
      expectStatus: {phase: Running}
      golden: golden/a.yaml
    - name: cannot be rendered
      source: {apiVersion: example.dev/v1, kind: Database, metadata: {name: b, labels: {tier: managed}}}
      expect: {objects.db.spec.size: 3}
    - name: is not let in
      source: {apiVersion: example.dev/v1, kind: Database, metadata: {name: b}}
";

/// The test with its first case alone.
fn first_case() -> &'static str {
    TEST.split_once("    - name: does not").expect("the first case").0
}

/// A mapping with its test, the source of that, and what else they need.
fn tested(mapping: &str, test: &str, more: &[(&str, &str)]) -> TempDir {
    directory(&[&[("maps/a.yaml", mapping), ("maps/a.test.yaml", test), ("maps/source.yaml", SOURCE)], more].concat())
}

#[test]
fn test_says_what_does_not_hold() {
    let golden = "apiVersion: example.dev/v1\nkind: Cluster\nspec:\n  size: 2\n";
    let root = tested(GOOD, TEST, &[("maps/golden/a.yaml", golden)]);
    assert_snapshot!("test-failing", shown_in(&root, &["test", "ROOT/maps"]));
}

const SIZES: &str = r#"
apiVersion: apis.kcp.io/v1alpha1
kind: APIResourceSchema
metadata: {name: v1.databases.example.dev}
spec:
  group: example.dev
  names: {kind: Database, plural: databases, singular: database, listKind: DatabaseList}
  scope: Namespaced
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        type: object
        properties:
          spec: {type: object, default: {}, properties: {size: {type: integer, default: 3, maximum: 5}}}
"#;

/// A source is taken as its API server would store it, or refused as the server would refuse it.
#[test]
fn a_source_has_the_defaults_of_its_schema_and_its_limits() {
    let (head, _) = SOURCE.split_once("spec:").expect("its spec");
    let invalid = SOURCE.replace("size: 3", "size: 6").replace("name: a", "name: A");
    let whole = SOURCE.replace("size: 3", "size: 3.0");
    let misspelt = SOURCE.replace("size: 3", "sise: 3").replace("labels", "lables");
    let files = [
        ("maps/a.yaml", GOOD),
        ("schemas/a.yaml", SIZES),
        ("short.yaml", head),
        ("invalid.yaml", &invalid),
        ("whole.yaml", &whole),
        ("misspelt.yaml", &misspelt),
    ];
    let root = directory(&files);
    let whole = said(&root, ["render ROOT/maps --schemas ROOT/schemas -f ROOT/whole.yaml"]);
    assert!(whole.contains("size: 3\n"), "{whole}");
    let short = said(&root, ["render ROOT/maps --schemas ROOT/schemas -f ROOT/short.yaml"]);
    assert!(short.contains("size: 3"), "{short}");
    let refused =
        ["invalid", "misspelt"].map(|name| format!("render ROOT/maps --schemas ROOT/schemas -f ROOT/{name}.yaml"));
    assert_snapshot!(said(&root, refused.each_ref().map(String::as_str)), @"
    exit 3
    stderr:
    error: an API server would refuse Database default/A:
      metadata.name: `A` is no DNS-1123 subdomain name
      spec.size: Invalid value: 6: spec.size in body should be less than or equal to 5
    exit 3
    stderr:
    error: an API server would refuse Database default/a:
      metadata.lables: unknown field; did you mean `labels`?
      spec.sise: unknown field; did you mean `size`?
    ");
}

/// The same of what is rendered, and of the source of a case.
#[test]
fn what_the_target_would_refuse_fails() {
    let definition = "\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: clusters.example.dev}
spec:
  group: example.dev
  names: {kind: Cluster, plural: clusters}
  scope: Namespaced
  versions:
    - name: v1
      schema:
        openAPIV3Schema:
          type: object
          properties: {spec: {type: object, properties: {size: {type: integer, maximum: 2}, plan: {type: string}}}}
";
    let root = tested(GOOD, first_case(), &[("schemas/a.yaml", definition)]);
    for verb in
        ["test ROOT/maps --schemas ROOT/schemas", "render ROOT/maps --schemas ROOT/schemas -f ROOT/maps/source.yaml"]
    {
        let said = said(&root, [verb]);
        let why = "spec.size: Invalid value: 3: spec.size in body should be less than or equal to 2";
        assert!(said.starts_with("exit 1\n") && said.contains(why), "{said}");
    }
    let other = first_case()
        .replace("source: source.yaml", "source: {apiVersion: example.dev/v2, kind: Database, metadata: {name: a}}");
    let related = "    - name: reads
      source: source.yaml
      related: [{apiVersion: example.dev/v1, kind: Cluster, metadata: {name: c}, spec: {size: 9}}]
    - name: is cut short
      source: source.yaml
      related: [{kind: Secret, metadata: {name: c}}]
    - name: is misspelt
      source: source.yaml
      observed: [{apiVersion: example.dev/v1, kind: Cluster, metadata: {name: a}, spec: {plam: free}}]
";
    fs::write(root.path().join("maps/a.test.yaml"), other + related).expect("a test");
    let said = said(&root, ["test ROOT/maps --schemas ROOT/schemas"]);
    let each = "  FAIL  holds
        its source must be one of databases.v1.example.dev
  FAIL  reads
        an API server would refuse Cluster c:
          spec.size: Invalid value: 9: spec.size in body should be less than or equal to 2
  FAIL  is cut short
        Secret c lacks `apiVersion`, `kind` or `metadata`, which every object has
  FAIL  is misspelt
        an API server would refuse Cluster a:
          spec.plam: unknown field; did you mean `plan`?
";
    assert!(said.starts_with("exit 1\n") && said.contains(each), "{said}");
}

/// What holds for objects of every kind needs no schema.
#[test]
fn what_every_target_would_refuse_fails() {
    let more = "    - id: login
      template: {apiVersion: v1, kind: Secret, data: {user: '{{ source.spec.user }}'}}
    - id: vault
      template: {apiVersion: vault.example.dev/v1, kind: Secret, data: {user: '{{ source.spec.user }}'}}
    - id: settings
      template:
        apiVersion: v1
        kind: ConfigMap
        binaryData: {user: '{{ source.spec.user }}'}
        metadata: {name: '{{ placement.name }}-{{ source.spec.user }}', labels: {user: '{{ source.spec.user }}'}}
  status:
";
    let mapping = GOOD.replace("  status:\n", more);
    let source = SOURCE.replace("{size: 3}", "{size: 3, user: 'Ann B.'}");
    let root =
        directory(&[("maps/a.yaml", &mapping), ("maps/a.test.yaml", first_case()), ("maps/source.yaml", &source)]);
    for verb in ["test ROOT/maps", "render ROOT/maps -f ROOT/maps/source.yaml"] {
        let said = said(&root, [verb]);
        let why = [
            "  data.user: no base64; text goes into `stringData`",
            "  binaryData.user: no base64; text goes into `data`",
            "metadata.name: `a-Ann B.` is no DNS-1123 subdomain name",
            "metadata.labels.user: \"Ann B.\" is no label's value",
        ];
        assert!(said.starts_with("exit 1\n") && why.iter().all(|why| said.contains(why)), "{said}");
        assert_eq!(said.matches("no base64").count(), 2, "a Secret of another group may hold text: {said}");
    }
}

/// No consumer can accept what the provider does not ask for.
#[test]
fn a_claim_that_the_export_among_the_schemas_lacks_is_reported() {
    let (mapping, export) = (read("mappings/mongodb.yaml"), read("schemas/mongodb/apiexport.yaml"));
    let less = export.replace("[get, list, watch, create, patch, delete]", "[get, list, watch]");
    let none = export.split("  # The Secrets and").next().expect("what stands before the claims");
    assert!(less != export && none.len() < export.len());
    let said = |export: &str| {
        let root = directory(&[("mappings/mongodb.yaml", &mapping), ("schemas/export.yaml", export)]);
        let shown = shown_in(&root, &["validate", "ROOT"]);
        let lines = shown.lines().filter(|line| line.contains("SE0805"));
        lines.map(str::to_owned).collect::<Vec<_>>().join("\n")
    };
    let lacks =
        |verbs: &str, of: &str| format!("error[SE0805]: the APIExport `mongodb` does not claim {verbs} of `{of}`");
    assert_eq!(said(&less), lacks("create, patch, delete", "secrets"));
    assert!(said(none).contains(&lacks("get, list, watch", "configmaps")), "{}", said(none));
    assert_eq!(said(&export), "");
}

#[test]
fn what_is_half_rendered_is_no_golden() {
    let (head, _) = TEST.split_once("      expect:").expect("the first case");
    let test = format!("{head}      golden: golden/new.yaml\n");
    let nameless = SOURCE.replace("spec: {size: 3}", "spec: {}");
    let root = directory(&[("maps/a.yaml", GOOD), ("maps/a.test.yaml", &test), ("maps/source.yaml", &nameless)]);
    let said = said(&root, ["test ROOT/maps --update"]);
    assert!(said.starts_with("exit 1\n") && said.contains("RenderFailed: object `db`: spec.size: "), "{said}");
    assert!(!root.path().join("maps/golden").exists());
}

/// Null is what is absent, and not what nothing has; and a case in which the object only waits shows nothing of the mapping.
#[test]
fn a_case_that_shows_nothing_fails() {
    let related = "  related:\n    - {id: password, direction: ToTarget, resource: secrets.v1, from: {name: password}}\n  objects:";
    let waiting = GOOD
        .replace("  objects:", related)
        .replace("source.spec.size }}'", "source.spec.size }}', secret: '${{ related.password.to.name }}'");
    let (head, _) = TEST.split_once("      expect:").expect("the first case");
    let case = |name: &str, rest: &str| format!("    - name: {name}\n      source: source.yaml\n{rest}");
    let given = "      related: [{apiVersion: v1, kind: Secret, metadata: {name: password, namespace: default}}]\n";
    let test = [
        head.replace("name: holds", "name: only waits"),
        "      golden: golden/waits.yaml\n".to_owned(),
        case("waits as it should", "      expect: {objects.db: null}\n"),
        case(
            "names another",
            &format!("{}      expect: {{objects.db: null}}\n", given.replace(" password", " pasword")),
        ),
        case("has it", &format!("{given}      expect: {{objects.db.spec.size: 3}}\n")),
        case(
            "is not as expected",
            &format!("{given}      expect: {{objects.db.spec.size: 4}}\n      golden: golden/no.yaml\n"),
        ),
        case(
            "misspelt",
            &format!(
                "{given}      expect: {{objects.cache: null, placement.nam: null}}\n      expectStatus: {{fase: null}}\n"
            ),
        ),
        case(
            "absent",
            &format!(
                "{}      expectStatus: {{phase: Pending, size: null}}\n",
                given.replace(", namespace: default", "")
            ),
        ),
    ];
    let status = "{type: object, properties: {phase: {type: string}, size: {type: integer}}}";
    let sizes = SIZES.replace("        properties:\n", &format!("        properties:\n          status: {status}\n"));
    let root = tested(&waiting, &test.concat(), &[("schemas/a.yaml", &sizes)]);
    assert_snapshot!(shown_in(&root, &["test", "ROOT/maps", "--schemas", "ROOT/schemas", "--update"]), @r#"
    exit 1
    sizes (ROOT/maps/a.test.yaml)
      FAIL  only waits
            `objects.db` only waits: add what it waits for to `related` or `observed`, or expect `objects.db: null`
            Waiting: related object `password`: secrets default/password does not exist in the consumer's cluster
            Waiting: object `db`: related object `password` (read at `spec.secret`)
      ok    waits as it should
      FAIL  names another
            related: nothing of the mapping reads Secret default/pasword
      ok    has it
      FAIL  is not as expected
            objects.db.spec.size: expected 4, got 3
      FAIL  misspelt
            objects.cache: there is no such field: it would always be null
            placement.nam: there is no such field: it would always be null
            status.fase: there is no such field: it would always be null
      ok    absent

    mapping databases: 2 of 2 expressions and branches tested (100 %)

    3 cases passed, 4 failed
    stderr:
    an engine would refuse these mappings for 1 error: `sync-engine validate` shows what is wrong
    "#);
    assert!(!root.path().join("maps/golden").exists());
}

#[test]
fn a_test_reads_and_writes_nothing_outside_of_its_folder() {
    let root = tested(GOOD, TEST, &[("private.yaml", SOURCE)]);
    std::os::unix::fs::symlink("../private.yaml", root.path().join("maps/link.json")).expect("a link");
    std::os::unix::fs::symlink("..", root.path().join("maps/.above")).expect("a link");
    let private = root.path().join("private.yaml");
    let absolute = private.display().to_string();
    for name in [absolute.as_str(), "../private.yaml", "link.json", ".above/private.yaml", ".above/new.yaml"] {
        let golden = format!("{}      golden: {name}\n", first_case());
        for test in [golden, TEST.replace("source: source.yaml", &format!("source: {name}"))] {
            assert!(test.contains(name), "{test}");
            fs::write(root.path().join("maps/a.test.yaml"), test).expect("a test");
            let said = shown_in(&root, &["test", "ROOT/maps", "--update"]);
            assert!(said.contains("is not below the folder of the test"), "{name}: {said}");
        }
    }
    assert_eq!(read(&private), SOURCE);
    assert!(!root.path().join("new.yaml").exists());
}

#[test]
fn update_writes_golden_files_that_hold_from_then_on() {
    let test = format!("{}      golden: golden/new.yaml\n", first_case());
    let root = tested(GOOD, &test, &[]);
    let missing = said(&root, ["test ROOT/maps"]);
    let help = "golden golden/new.yaml does not exist; write it with --update\n";
    assert!(missing.starts_with("exit 1\n") && missing.contains(help), "{missing}");
    let written = said(&root, ["test ROOT/maps --update"]);
    assert!(written.starts_with("exit 0\n"), "{written}");
    assert!(written.contains("  ok    holds\nwrote ROOT/maps/golden/new.yaml\n"), "{written}");
    assert!(run(&["test", &root.path().join("maps").display().to_string()]).status.success());
    // Another case does not take the file from the one for which it holds, neither in the same test nor in another.
    let more = format!("{test}    - name: of another size\n      source: other.yaml\n      golden: golden/new.yaml\n");
    let another = test.replace("sizes", "others").replace("source.yaml", "other.yaml").replace("size: 3", "size: 4");
    fs::write(root.path().join("maps/other.yaml"), SOURCE.replace("size: 3", "size: 4")).expect("a source");
    for tests in [vec![("a", &more)], vec![("a", &test), ("b", &another)]] {
        for (name, test) in tests {
            fs::write(root.path().join(format!("maps/{name}.test.yaml")), test).expect("a test");
        }
        let said = shown_in(&root, &["test", "ROOT/maps", "--update"]);
        let clash = "golden golden/new.yaml: another case writes something else to it";
        assert!(said.contains(clash) && !said.contains("wrote"), "{said}");
    }
}

#[test]
fn test_needs_a_test_and_its_mapping() {
    let misspelt = TEST.replace("mapping: databases", "mapping: database");
    let files =
        [("maps/a.yaml", GOOD), ("tests/a.yaml", TEST), ("bad/b.yaml", &broken()), ("misspelt/a.yaml", &misspelt)];
    let root = directory(&files);
    let lines = ["test ROOT/maps", "test ROOT/maps ROOT/misspelt", "test ROOT/tests"];
    assert_snapshot!(said(&root, lines).replace("exit 3\nstderr:\n", ""), @"
    error: there is no MappingTest in `ROOT/maps`
    error: ROOT/misspelt/a.yaml: the test `sizes` is about mapping `database`, which is not among the files; did you mean `databases`?
    error: ROOT/tests/a.yaml: the test `sizes` is about mapping `databases`, which is not among the files; name its folder as well
    ");
    assert!(said(&root, ["test ROOT/bad"]).starts_with("exit 3\n"));
}

/// Written anew by `sync-engine schema export > schemas/sync-engine.dev_v1alpha1.json`.
#[test]
fn the_schema_for_editors_is_fresh() {
    let file = read("schemas/sync-engine.dev_v1alpha1.json");
    assert!(
        file == format!("{:#}\n", json_schema()),
        "run: sync-engine schema export > schemas/sync-engine.dev_v1alpha1.json"
    );
    let output = run(&["schema", "export"]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), file);
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let mut command = program::command(Path::new(ROOT), &["schema", "export"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("an end");
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(0), ""));
}
