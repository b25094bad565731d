use super::*;

/// A mapping that gets along with others on its resource, unless `status` says otherwise.
fn mapping(name: &str, status: &str) -> String {
    format!(
        "apiVersion: sync-engine.dev/v1alpha1\nkind: Mapping\nmetadata: {{name: {name}}}\nspec:\n  source: {{apiExport: {{name: {name}}}, \
         resource: widgets.v1.example.com}}\n  objects:\n    - id: w\n      template: {{apiVersion: v1, kind: ConfigMap, metadata: {{name: \"{{{{ placement.name \
         }}}}-{name}\"}}, data: {{a: b}}}}\n  \
         status: {{fields: {{{status}}}}}\n"
    )
}

const PROVIDER: &str = "apiVersion: sync-engine.dev/v1alpha1\nkind: ClusterProvider\nmetadata: {name: edge}\nspec: {kubeconfig: {connection: target}}\n";

fn provider(catalog: &Catalog) -> Option<&ClusterProvider> {
    catalog.providers().find(|provider| provider.name == "edge")
}

/// A directory that is edited, and the catalog that follows it.
#[derive(Default)]
struct World {
    catalog: Catalog,
    files: Files,
    retained: BTreeMap<String, Arc<str>>,
}

impl World {
    /// As an engine with schemas.
    fn checking() -> Self {
        let mut schemas = Schemas::default();
        let file = include_bytes!("../../../../tests/ui/checks/schemas/database.yaml");
        assert_eq!(schemas.add_file(file), []);
        // Of the others, nothing is known but that there are such.
        let widgets = "kind: APIResourceSchema\nspec:\n  group: example.com\n  names: {kind: Widget, plural: widgets}\n  versions: [{name: v1, subresources: {status: {}}, schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}]\n";
        assert_eq!(schemas.add_file(widgets.as_bytes()), []);
        Self { catalog: Catalog::checking(schemas), ..Self::default() }
    }

    fn write(&mut self, path: &str, content: &str) -> String {
        self.files.readable.insert(path.to_owned(), content.as_bytes().to_vec());
        self.reload()
    }

    fn remove(&mut self, path: &str) -> String {
        self.files.readable.remove(path);
        self.reload()
    }

    /// The acknowledgement lines and the diagnostics, a line each.
    fn reload(&mut self) -> String {
        let (catalog, update) = self.catalog.update(&self.files, &self.retained);
        self.catalog = catalog;
        let notes = |diagnostic: &Diagnostic| match diagnostic.finding.notes.join("; ") {
            notes if notes.is_empty() => String::new(),
            notes => format!(" [{notes}]"),
        };
        let changes = update.changes.iter().map(ToString::to_string);
        let diagnostics = self.catalog.diagnostics.iter().map(|one| format!("{one}{}", notes(one)));
        changes.chain(diagnostics).collect::<Vec<_>>().join("\n")
    }

    fn standing(&self, name: &str) -> Option<(Standing, u64)> {
        self.catalog.mapping(name).map(|entry| (entry.standing, entry.generation))
    }
}

#[test]
fn added_changed_and_removed() {
    let mut world = World::default();
    insta::assert_snapshot!(world.write("a.yaml", &mapping("mongodb", "phase: $.status.phase")), @"mapping mongodb: generation 1: added");
    assert_eq!(world.reload(), "");
    let first = world.catalog.mapping("mongodb").expect("running").mapping.clone();
    let changed = mapping("mongodb", "phase: $.status.state, version: $.status.version").replace("a: b", "a: c");
    insta::assert_snapshot!(world.write("a.yaml", &changed), @"mapping mongodb: generation 2: template of object w changed; status field phase changed; status field version added");
    assert!(!Arc::ptr_eq(&first, &world.catalog.mapping("mongodb").expect("running").mapping));
    insta::assert_snapshot!(world.remove("a.yaml"), @"mapping mongodb: removed with generation 2; its objects stay until their sources are deleted, unless its onMappingRemoved says otherwise");
    assert_eq!(world.standing("mongodb"), Some((Standing::Retained, 2)));
    assert!(world.catalog.mapping("mongodb").expect("retained").removal_seen);
    let leaving = world.catalog.leave("mongodb", &first);
    assert!(Arc::ptr_eq(&first, &leaving.mapping("mongodb").expect("retained").mapping));
    insta::assert_snapshot!(world.write("b.yaml", &changed), @"mapping mongodb: generation 2: added");
    assert_eq!(world.standing("mongodb"), Some((Standing::Running, 2)));
    world.remove("b.yaml");
    assert!(world.catalog.forget("mongodb").mapping("mongodb").is_none());
}

#[test]
fn what_changed_is_said() {
    let mut world = World::default();
    let full = include_str!("../../../../tests/ui/documents/good.yaml");
    world.write("a.yaml", full);
    let mut edit = |from: &str, to: &str| {
        assert!(full.contains(from), "{from}");
        world.write("a.yaml", full);
        world.write("a.yaml", &full.replacen(from, to, 1))
    };
    let edits = [
        edit("mode: Observe", "mode: Enforce"),
        edit("tier: managed", "tier: free"),
        edit("path: root:mongodb", "path: root:other"),
        edit("namespaceLabels: {team:", "namespaceLabels: {unit:"),
        edit("default(3)", "default(5)"),
        edit(
            "    - id: sa\n      shared: Namespace\n      template: {apiVersion: v1, kind: ServiceAccount, metadata: {name: mongodb-database}}\n",
            "",
        ),
        edit("id: sa", "id: account"),
        edit("drift: Report", "drift: Correct"),
        edit("version: $.status.version\n", "release: $.status.version\n"),
        edit("    observedGeneration: Auto\n", "    observedGeneration: Off\n"),
        edit("type: Ready", "type: Available"),
        edit("types: [Ready, Healthy]", "types: [Ready]"),
        edit("stuckAfter: 1h30m", "stuckAfter: 2h"),
        edit("concurrency: 4", "concurrency: 5"),
        edit("# Everything", "# Nearly everything"),
    ];
    let words: Vec<_> =
        edits.iter().map(|edit| edit.split_once(": generation").map_or("nothing", |(_, what)| what)).collect();
    insta::assert_snapshot!(words.join("\n"), @"
     2: mode Observe becomes Enforce
     4: source filter changed
     6: source changed
     8: placement rule changed (new sources only)
     10: variable members changed
     12: object sa removed
     14: object account added; object sa removed
     16: settings of object db changed
     18: status field release added; status field version removed
     20: status settings changed
     22: condition Available added; condition Ready removed
     24: mirrored conditions changed
     26: lifecycle changed
     28: reconcile settings changed
    nothing
    ");
}

#[test]
fn a_broken_edit_keeps_the_last_good_version() {
    let mut world = World::default();
    let good = mapping("mongodb", "phase: $.status.phase");
    world.write("a.yaml", &good);
    insta::assert_snapshot!(world.write("a.yaml", &good.replace("status:", "statsu:")), @r"
    mapping mongodb: its document cannot be used or found; generation 1 keeps running
    a.yaml:9:3: error[SE0101]: unknown field `statsu` (did you mean `status`?) [mapping `mongodb` keeps running generation 1]
    ");
    assert_eq!(world.standing("mongodb"), Some((Standing::KeptOnError, 1)));
    insta::assert_snapshot!(world.write("a.yaml", &good.replace("[", "").replace("spec:", "spec: [")), @"a.yaml:6:3: error[SE0001]: YAML syntax: while parsing a flow mapping, did not find expected ',' or '}' [mapping `mongodb` keeps running generation 1]");
    insta::assert_snapshot!(world.write("a.yaml", &good), @"mapping mongodb: its document is good again; generation 1 keeps running");
    assert_eq!(world.standing("mongodb"), Some((Standing::Running, 1)));
}

#[test]
fn a_half_written_file_removes_nothing() {
    let good = mapping("mongodb", "phase: $.status.phase");
    let both = format!("{good}---\n{}", mapping("redis", "phase: $.status.phase"));
    for cut in 0..both.len() {
        let mut world = World::default();
        world.write("a.yaml", &both);
        world.write("a.yaml", &both[..cut]);
        // What is cut at a line's end can be a good, shorter file: only time tells it from an intended one.
        if world.catalog.diagnostics().is_empty() {
            continue;
        }
        for name in ["mongodb", "redis"] {
            let standing = world.standing(name).expect("known").0;
            assert_ne!(standing, Standing::Retained, "{name} at {cut}: {}", &both[..cut]);
        }
    }
}

#[test]
fn neighbours_are_left_alone() {
    let mut world = World::default();
    let file = |middle: &str| format!("{}---\n{middle}---\n{}", mapping("a", "x: $.x"), mapping("c", "x: $.x"));
    world.write("all.yaml", &file(&mapping("b", "x: $.x")));
    insta::assert_snapshot!(world.write("all.yaml", &file("{{{\n")), @r#"
    mapping b: its document cannot be used or found; generation 1 keeps running
    all.yaml:11:1: error[SE0001]: YAML reads this expression as structure (a value that begins with `{` is a map to YAML: write `${{ x }}`, or put a text in quotes, `"{{ x }}-text"`) [mapping `b` keeps running generation 1]
    "#);
    let standings: Vec<_> = ["a", "b", "c"].iter().map(|name| world.standing(name).expect("known")).collect();
    assert_eq!(standings, [(Standing::Running, 1), (Standing::KeptOnError, 1), (Standing::Running, 1)]);
    insta::assert_snapshot!(world.write("all.yaml", &file("# b is gone\n")), @"mapping b: removed with generation 1; its objects stay until their sources are deleted, unless its onMappingRemoved says otherwise");
}

#[test]
fn empty_and_unreadable_files_remove_nothing() {
    let mut world = World::default();
    world.write("a.yaml", &mapping("mongodb", "x: $.x"));
    insta::assert_snapshot!(world.write("a.yaml", "\n"), @r"
    mapping mongodb: its document cannot be used or found; generation 1 keeps running
    a.yaml:1:1: warning[SE0012]: the file is empty; the mappings it held keep running (to remove them, delete the file) [mapping `mongodb` keeps running generation 1]
    ");
    world.files.readable.remove("a.yaml");
    world.files.unreadable.insert("a.yaml".into(), "Permission denied".into());
    insta::assert_snapshot!(world.reload(), @"a.yaml:1:1: error[SE0011]: the file cannot be read: Permission denied [mapping `mongodb` keeps running generation 1]");
    world.files.unreadable.clear();
    insta::assert_snapshot!(world.write("a.yaml", "# nothing any more\n"), @"mapping mongodb: removed with generation 1; its objects stay until their sources are deleted, unless its onMappingRemoved says otherwise");
}

/// A ConfigMap at home has to hold it beside those before it.
#[test]
fn a_mapping_that_is_too_large_is_refused_and_a_file_of_several_is_not() {
    let mut world = World::default();
    let padded = |name: &str, bytes: usize| format!("{}# {}\n", mapping(name, "x: $.x"), "x".repeat(bytes));
    let two = [padded("a", 200 << 10), padded("b", 200 << 10)].join("---\n");
    assert!(!world.write("two.yaml", &two).contains("error"));
    let refused = world.write("c.yaml", &padded("c", 256 << 10));
    assert!(refused.contains("c.yaml:1:1: error[SE0010]: the mapping has "), "{refused}");
    assert!(world.catalog.mapping("c").is_none());
    // As a text in JSON, each quote is two bytes.
    let quotes = world.write("c.yaml", &padded("c", 200 << 10).replace("xx", "x\""));
    assert!(quotes.contains("c.yaml:1:1: error[SE0010]: the mapping has "), "{quotes}");
    world.remove("c.yaml");
    let provider = |bytes: usize| format!("{PROVIDER}# {}\n", "x".repeat(bytes));
    assert!(!world.write("p.yaml", &provider(60 << 10)).contains("SE0010"));
    let refused = world.write("p.yaml", &provider(64 << 10));
    assert!(refused.contains("p.yaml:1:1: error[SE0010]: the ClusterProvider has "), "{refused}");
}

/// Each kind is a watch, and the state store has to name them beside those of the document before.
#[test]
fn a_mapping_with_too_many_kinds_is_refused() {
    let (mut world, good) = (World::default(), mapping("a", "x: $.x").replace("status: {", "status: {from: w, "));
    let (before, after) = good.split_once("    - id: w\n").expect("objects");
    let object = |number: usize| {
        format!("    - {{id: o{number}, template: {{apiVersion: example.com/v1, kind: Kind{number}}}}}\n")
    };
    let mut with = |kinds: usize| {
        let others: String = (1..kinds).map(object).collect();
        world.write("a.yaml", &format!("{before}{others}    - id: w\n{after}"))
    };
    let taken = with(128);
    assert!(!taken.contains("error"), "{taken}");
    let refused = with(129);
    assert!(refused.contains("a.yaml:1:1: error[SE0010]: its objects are of 129 kinds"), "{refused}");
}

/// What is missing may be in what is broken, whichever file it stood in.
#[test]
fn nothing_is_removed_while_a_file_is_broken() {
    let mut world = World::default();
    world.write("a.yaml", &mapping("a", "x: $.x"));
    world.write("b.yaml", &mapping("b", "x: $.x"));
    world.write("b.yaml", "spec: [\n");
    insta::assert_snapshot!(world.remove("a.yaml"), @"
    mapping a: its document cannot be used or found; generation 1 keeps running
    b.yaml:1:7: error[SE0001]: YAML syntax: unclosed bracket '[' [mapping `a` keeps running generation 1; mapping `b` keeps running generation 1]
    ");
    // Every good document takes effect all the same.
    insta::assert_snapshot!(world.write("c.yaml", &mapping("c", "x: $.x")), @"
    mapping c: generation 1: added
    b.yaml:1:7: error[SE0001]: YAML syntax: unclosed bracket '[' [mapping `a` keeps running generation 1; mapping `b` keeps running generation 1]
    ");
    insta::assert_snapshot!(world.write("b.yaml", &mapping("b", "x: $.x")), @"
    mapping a: removed with generation 1; its objects stay until their sources are deleted, unless its onMappingRemoved says otherwise
    mapping b: its document is good again; generation 1 keeps running
    ");
}

#[test]
fn a_taken_name_stays_with_the_running_one() {
    let mut world = World::default();
    world.write("b.yaml", &mapping("mongodb", "x: $.x"));
    insta::assert_snapshot!(world.write("a.yaml", &mapping("mongodb", "y: $.y")), @"a.yaml:3:18: error[SE0121]: the mapping `mongodb` stands in b.yaml already (give one of the two another name)");
    // Even while the running one's document is broken.
    insta::assert_snapshot!(world.write("b.yaml", "kind: Mapping\nmetadata: {name: mongodb}\nspec: [\n"), @r"
    mapping mongodb: its document cannot be used or found; generation 1 keeps running
    a.yaml:3:18: error[SE0121]: the mapping `mongodb` stands in b.yaml already (give one of the two another name)
    b.yaml:3:7: error[SE0001]: YAML syntax: unclosed bracket '[' [mapping `mongodb` keeps running generation 1]
    ");
    insta::assert_snapshot!(world.remove("b.yaml"), @"mapping mongodb: generation 2: status field y added; status field x removed");

    let mut start = World::default();
    start.files.readable.insert("b.yaml".into(), mapping("mongodb", "x: $.x").into_bytes());
    insta::assert_snapshot!(start.write("a.yaml", &mapping("mongodb", "y: $.y")), @r"
    mapping mongodb: generation 1: added
    b.yaml:3:18: error[SE0121]: the mapping `mongodb` stands in a.yaml already (give one of the two another name)
    ");
    assert_eq!(start.catalog.mapping("mongodb").expect("running").file.as_deref(), Some("a.yaml"));
}

#[test]
fn mappings_of_the_same_clusters_are_compared_by_the_names_of_their_objects() {
    let beside = |objects: &str| {
        let (head, _) =
            mapping("second", "").split_once("  objects:").map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
        let head = head.replace("{name: second}, resource: widgets", "{name: first}, resource: gadgets");
        format!("{head}  objects:\n    - {{id: o, template: {{apiVersion: v1, {objects}}}}}\n")
    };
    let mut world = World::default();
    world.write("first.yaml", &mapping("first", "x: $.x"));
    let own = "kind: ConfigMap, metadata: {name: \"{{ placement.name }}-second\"}";
    insta::assert_snapshot!(world.write("second.yaml", &beside(own)), @"mapping second: generation 1: added");
    insta::assert_snapshot!(world.write("second.yaml", &beside("kind: ConfigMap")), @r"
    mapping second: generation 2: template of object o changed
    second.yaml:3:18: warning[SE0708]: the mapping `first` can write the same object: ConfigMap `default-awjngjkggz5jmake/my-database-first`, for example (give the objects of each mapping a name with an ending of its own)
    ");
    insta::assert_snapshot!(world.write("second.yaml", &beside("kind: Secret")), @"mapping second: generation 3: template of object o changed");
    let other = beside("kind: ConfigMap").replace("apiExport: {name: first}", "apiExport: {name: other}");
    insta::assert_snapshot!(world.write("second.yaml", &other), @"mapping second: generation 4: source changed; template of object o changed");
}

#[test]
fn one_status_field_has_one_writer() {
    let other = |status: &str, rest: &str| {
        mapping("second", status)
            .replace("{name: second}, resource", "{name: first}, resource")
            .replace("status: {", &format!("status: {{{rest}"))
    };
    let quiet = "engineConditions: [], observedGeneration: Off, ";
    let mut world = World::default();
    world.write("first.yaml", &mapping("first", "a.b: $.x"));
    insta::assert_snapshot!(world.write("second.yaml", &other("a: $.x", quiet)), @"second.yaml:3:18: error[SE0701]: the mapping `first` writes the status field `a` of this resource already (let one of the two mappings write it)");
    insta::assert_snapshot!(world.write("second.yaml", &other("c: $.x", "")), @"second.yaml:3:18: error[SE0701]: the mapping `first` writes the condition `Synced` of this resource already (one of the two sets `status: {engineConditions: [], observedGeneration: Off}`)");
    insta::assert_snapshot!(world.write("second.yaml", &other("c: $.x", quiet)), @"mapping second: generation 1: added");
    insta::assert_snapshot!(world.write("second.yaml", &other("a.b.c: $.x", quiet)), @r"
    mapping second: its document cannot be used or found; generation 1 keeps running
    second.yaml:3:18: error[SE0701]: the mapping `first` writes the status field `a.b.c` of this resource already (let one of the two mappings write it) [mapping `second` keeps running generation 1]
    ");
    // A field that moves from one to the other in one reload.
    let before = world.catalog.mapping("first").expect("running").mapping.clone();
    world.files.readable.insert("first.yaml".into(), mapping("first", "d: $.x").into_bytes());
    insta::assert_snapshot!(world.write("second.yaml", &other("a: $.x", quiet)), @r"
    mapping first: generation 2: status field d added; status field a.b removed
    mapping second: generation 2: status field a added; status field c removed
    ");
    let [first, second] = ["first", "second"].map(|name| &*world.catalog.mapping(name).expect("running").mapping);
    assert_eq!(both_write(first, second), None);
    assert_eq!(both_write(&before, second).as_deref(), Some("status field `a.b`"), "as long as that edit waits");
    world.write("second.yaml", &mapping("second", "a: $.x"));
    let second = &world.catalog.mapping("second").expect("running").mapping;
    assert_eq!(both_write(&before, second), None, "of another export");
}

#[test]
fn providers() {
    let mut world = World::default();
    let edge = mapping("m", "x: $.x").replace("apiExport: {name: m}", "provider: edge");
    insta::assert_snapshot!(world.write("m.yaml", &edge), @"m.yaml:5:22: error[SE0120]: no document defines the ClusterProvider `edge` (add one: `kind: ClusterProvider` with this name)");
    insta::assert_snapshot!(world.write("p.yaml", PROVIDER), @r"
    mapping m: generation 1: added
    provider edge: added
    ");
    insta::assert_snapshot!(world.write("p2.yaml", PROVIDER), @"p2.yaml:3:18: error[SE0121]: the ClusterProvider `edge` stands in p.yaml already (give one of the two another name)");
    world.remove("p2.yaml");
    insta::assert_snapshot!(world.write("p.yaml", &PROVIDER.replace("target", "other")), @"provider edge: changed");
    insta::assert_snapshot!(world.write("p.yaml", &PROVIDER.replace("kubeconfig", "kubeconf")), @"
    m.yaml:5:22: error[SE0120]: no document defines the ClusterProvider `edge` any more; its last version stays in use
    p.yaml:4:8: error[SE0104]: `kubeconf` is not one of `kubeconfig`, `kubeconfigFiles`, `kubeconfigSecrets`, `kind`, `clusterApi`, `clusterInventory`, `namespaces`, `workspaceTypes`, `custom`, `none`, `multi` (did you mean `kubeconfig`?)
    ");
    insta::assert_snapshot!(world.remove("p.yaml"), @"m.yaml:5:22: error[SE0120]: no document defines the ClusterProvider `edge` any more; its last version stays in use");
    assert!(provider(&world.catalog).is_some());
    insta::assert_snapshot!(world.remove("m.yaml"), @"mapping m: removed with generation 1; its objects stay until their sources are deleted, unless its onMappingRemoved says otherwise");
}

/// Sources would move to another cluster because of a file that is half written.
#[test]
fn a_provider_whose_document_is_broken_keeps_its_name() {
    let mut world = World::default();
    world.write("p.yaml", PROVIDER);
    let first = provider(&world.catalog).cloned();
    let taken = "a.yaml:3:18: error[SE0121]: the ClusterProvider `edge` stands in p.yaml already";
    for text in [PROVIDER, &PROVIDER.replace("kubeconfig", "kubeconf"), &PROVIDER[..40], "\n"] {
        world.write("p.yaml", text);
        let said = world.write("a.yaml", &PROVIDER.replace("target", "other"));
        assert!(said.contains(taken), "{text}: {said}");
        assert_eq!(provider(&world.catalog), first.as_ref(), "{text}");
    }
    insta::assert_snapshot!(world.remove("p.yaml"), @"provider edge: changed");
}

/// What holds for the provider of a source holds for those of targets: without it, sources that are deleted would wait for ever.
#[test]
fn providers_of_targets() {
    for target in ["targets: {clusters: {provider: edge}}", "target: {cluster: edge/east}"] {
        let text = mapping("m", "").replace("  objects:", &format!("  {target}\n  objects:"));
        let mut world = World::default();
        let missing = world.write("m.yaml", &text);
        let before = text.split("edge").next().unwrap_or_default();
        let line = before.lines().last().unwrap_or_default();
        let at = format!("m.yaml:{}:{}: error[SE0120]", before.lines().count(), line.len() + 1);
        let missing_here = format!("{at}: no document defines the ClusterProvider `edge` (add one");
        assert!(missing.contains(&missing_here), "{missing}");
        world.write("p.yaml", PROVIDER);
        let misspelt = world.write("m.yaml", &text.replace("edge", "egde"));
        assert!(misspelt.contains("the ClusterProvider `egde` (did you mean `edge`?)"), "{misspelt}");
        world.write("m.yaml", &text);
        assert_eq!(world.standing("m"), Some((Standing::Running, 1)));
        let running = world.catalog.clone();
        let broken = world.write("p.yaml", &PROVIDER.replace("kubeconfig", "kubeconf"));
        assert!(broken.contains("ClusterProvider `edge` any more; its last version stays in use"), "{broken}");
        world.remove("m.yaml");
        world.remove("p.yaml");
        assert_eq!(provider(&world.catalog), provider(&running));
        // A state store keeps it.
        let mapping_of = &running.mapping("m").expect("running").mapping;
        let kept = mapping_of.provider_documents(|_| provider(&running).cloned());
        let mut after = World::default();
        after.retained.insert("m".into(), format!("{kept}\n---\n{text}").into());
        after.write("a.yaml", &mapping("other", "x: $.x"));
        assert_eq!(provider(&after.catalog), provider(&running));
    }
}

/// Each namespace is a cluster, and a source reads and writes in its own alone.
#[test]
fn related_objects_stay_in_the_namespace_that_is_their_cluster() {
    let mut world = World::default();
    let namespaces = PROVIDER.replace("kubeconfig", "namespaces");
    world.write("p.yaml", &namespaces);
    let related = |place: &str| {
        let entry = format!(
            "{{id: ca, direction: ToTarget, resource: secrets.v1, from: {{name: ca{place}}}, to: {{name: ca}}}}"
        );
        let edge = mapping("m", "x: $.x").replace("apiExport: {name: m}", "provider: edge");
        edge.replace("  objects:", &format!("  related:\n    - {entry}\n  objects:"))
    };
    assert_eq!(world.write("m.yaml", &related("")), "mapping m: generation 1: added");
    insta::assert_snapshot!(world.write("m.yaml", &related(", namespace: shared")), @"
    mapping m: its document cannot be used or found; generation 1 keeps running
    m.yaml:5:22: error[SE0114]: `related` ca names a namespace, and each namespace is a cluster of its own here (leave the namespace out: related objects are beside their source, and copies too) [mapping `m` keeps running generation 1]
    ");
    insta::assert_snapshot!(world.write("p.yaml", PROVIDER), @"
    mapping m: generation 2: related object ca changed
    provider edge: changed
    ");
}

/// In each, a consumer may have a Secret of that name.
#[test]
fn clusters_of_a_fleet_have_no_copy_in_common() {
    let shared = mapping("m", "x: $.x").replace("apiExport: {name: m}", "provider: edge").replace(
        "  objects:",
        "  placement: {namespace: \"{{ source.metadata.namespace }}\"}\n  related:\n    - {id: ca, direction: ToTarget, \
         resource: secrets.v1, from: {name: ca}, shared: Namespace}\n  objects:",
    );
    let said = |spec: &str, mapping: &str| {
        let mut world = World::default();
        world.write("p.yaml", &PROVIDER.replace("kubeconfig: {connection: target}", spec));
        world.write("m.yaml", mapping)
    };
    let fleet = "kubeconfigSecrets: {connection: hub, namespace: fleet}";
    let refused = said(fleet, &shared);
    assert!(
        refused.contains("error[SE0114]: sources of two clusters would have one copy of `related` ca"),
        "{refused}"
    );
    let apart = shared.replace("source.metadata.namespace }}", "source.metadata.namespace }}-{{ workspace.cluster }}");
    for (spec, mapping) in
        [(fleet, &apart), ("kubeconfig: {connection: target}", &shared), ("namespaces: {connection: target}", &shared)]
    {
        let said = said(spec, mapping);
        assert!(said.starts_with("mapping m: generation 1: added"), "{said}");
    }
}

/// What a mapping cannot have of workspaces that kcp holds up, and that no other mapping serves the same ones.
#[test]
fn a_mapping_over_workspaces_that_are_held_up_fits_them() {
    let teams = |types: &str| PROVIDER.replace("kubeconfig: {connection: target}", &format!("workspaceTypes: {types}"));
    let bootstrap = |name: &str| {
        format!(
            "apiVersion: sync-engine.dev/v1alpha1\nkind: Mapping\nmetadata: {{name: {name}}}\nspec:\n  source: {{provider: edge, \
             resource: logicalclusters.v1alpha1.core.kcp.io}}\n  target: {{cluster: source}}\n  objects:\n    - id: w\n      \
             template: {{apiVersion: v1, kind: Namespace, metadata: {{name: tools}}}}\n"
        )
    };
    let mut world = World::default();
    world.write("p.yaml", &teams("{initializing: \"root:types:team\"}"));
    let resource = ("logicalclusters.v1alpha1.core.kcp.io", "widgets.v1.example.com");
    let wrong = [
        bootstrap("m").replace(resource.0, resource.1).replace("tools", "\"{{ placement.name }}\""),
        bootstrap("m").replace("source}", "target}").replace("tools", "\"{{ placement.name }}\""),
        bootstrap("m").replace("provider: edge,", "provider: edge, clusters: {names: [2xcau5l8pb5n4bev]},"),
        bootstrap("m") + "  status: {fields: {x: $.x}}\n",
        bootstrap("m") + "  lifecycle: {onSourceVanished: Delete}\n",
        bootstrap("m") + "  lifecycle: {onMappingRemoved: Orphan}\n",
    ];
    let said: Vec<String> = wrong.iter().map(|text| world.write("m.yaml", text)).collect();
    insta::assert_snapshot!(said.join("\n"), @"
    m.yaml:5:22: error[SE0114]: the sources are workspaces that are initializing or terminating, and `widgets.v1.example.com` is none of them (write `resource: logicalclusters.v1alpha1.core.kcp.io`: the workspace itself is the source)
    m.yaml:5:22: error[SE0114]: the sources are workspaces that are initializing or terminating, and objects on another cluster would outlive them (name the same type in `terminating`, or write `target: {cluster: source}`)
    m.yaml:5:22: error[SE0114]: the sources are workspaces that are initializing or terminating, and each has a name that nobody chose (leave `clusters` out: `selector` and `when` choose workspaces)
    m.yaml:5:22: error[SE0114]: the sources are workspaces that are initializing or terminating, and nobody reads a status there (leave `status` out)
    m.yaml:5:22: error[SE0114]: the sources are workspaces that are initializing or terminating, and they are out of sight once they are in use (leave `onSourceVanished` and `onMappingRemoved` out: a workspace that is in use keeps what was made for it)
    m.yaml:5:22: error[SE0114]: the sources are workspaces that are initializing or terminating, and they are out of sight once they are in use (leave `onSourceVanished` and `onMappingRemoved` out: a workspace that is in use keeps what was made for it)
    ");
    assert_eq!(world.write("m.yaml", &bootstrap("m")), "mapping m: generation 1: added");
    insta::assert_snapshot!(world.write("n.yaml", &bootstrap("n")), @"n.yaml:5:22: error[SE0114]: the mapping `m` serves workspaces of this type already (use one mapping: the first that finishes removes kcp's initializer or terminator)");
    world.remove("n.yaml");
    world.write("p.yaml", &teams("{initializing: \"root:types:team\", terminating: \"root:types:team\"}"));
    let elsewhere = bootstrap("m")
        .replace("source}", "target}")
        .replace("kind: Namespace, metadata: {name: tools}", "kind: ConfigMap");
    world.write("m.yaml", &elsewhere);
    assert_eq!(world.standing("m"), Some((Standing::Running, 2)), "what is elsewhere goes when the workspace does");
    let shared = elsewhere.replace("    - id: w\n", "    - id: w\n      shared: Namespace\n");
    let shared = world.write("m.yaml", &shared.replace("kind: ConfigMap", "kind: ConfigMap, metadata: {name: all}"));
    assert!(shared.contains("what they have in common with others is out of sight with them"), "{shared}");
    let neither = world.write("p.yaml", &teams("{connection: kcp}"));
    assert!(
        neither.contains("SE0103") && neither.contains("needs `initializing`, `terminating`, or both"),
        "{neither}"
    );
    let nowhere = world.write("p.yaml", &teams("{terminating: team}"));
    assert!(nowhere.contains("SE0110") && nowhere.contains("`team` names no workspace"), "{nowhere}");
}

#[test]
fn a_selection_of_clusters_goes_with_what_the_provider_tells() {
    let hub = "kubeconfigSecrets: {connection: hub, namespace: fleet}";
    let inventory = "clusterInventory: {connection: hub}";
    let source = |clusters: &str| {
        mapping("m", "x: $.x").replace("apiExport: {name: m}", &format!("provider: edge, clusters: {{{clusters}}}"))
    };
    let target = |clusters: &str| {
        let all = format!("  targets: {{clusters: {{provider: edge, {clusters}}}}}\n  objects:");
        mapping("m", "").replace("  objects:", &all)
    };
    let part =
        |name: &str, spec: &str| PROVIDER.replace("edge", name).replace("kubeconfig: {connection: target}", spec);
    let shown = |mapping: &str, spec: &str| {
        let mut world = World::default();
        world.files.readable.insert("p.yaml".into(), part("edge", spec).into_bytes());
        if spec.starts_with("multi") {
            world.files.readable.insert("one.yaml".into(), PROVIDER.replace("edge", "one").into_bytes());
            world.files.readable.insert("two.yaml".into(), part("two", inventory).into_bytes());
        }
        world.write("m.yaml", mapping)
    };
    let (labels, properties) = ("matchLabels: {tier: gold}", "matchProperties: {id: east}");
    for good in [
        shown(&source("names: [edge]"), "kubeconfig: {connection: target}"),
        shown(&source(labels), hub),
        shown(&source(properties), inventory),
        shown(&target(properties), inventory),
        shown(&source(properties), "multi: [one, two]"),
    ] {
        assert!(good.starts_with("mapping m: generation 1: added") && !good.contains("error"), "{good}");
    }
    insta::assert_snapshot!(shown(&source(properties), hub), @r"
    provider edge: added
    m.yaml:5:22: error[SE0114]: the ClusterProvider `edge` tells no properties of its clusters (`matchProperties` goes with providers that tell properties: `clusterInventory` and `custom`)
    ");
    insta::assert_snapshot!(shown(&target(properties), hub), @r"
    provider edge: added
    m.yaml:3:18: error[SE0114]: the ClusterProvider `edge` tells no properties of its clusters (`matchProperties` goes with providers that tell properties: `clusterInventory` and `custom`)
    ");
    insta::assert_snapshot!(shown(&source(labels), "kubeconfig: {connection: target}"), @r"
    provider edge: added
    m.yaml:5:22: error[SE0114]: the ClusterProvider `edge` tells no labels of its clusters (`matchLabels` goes with providers that tell labels: `kubeconfigSecrets`, `clusterApi`, `clusterInventory`, `namespaces` and `custom`)
    ");
    insta::assert_snapshot!(World::default().write("m.yaml", &source(labels)), @"m.yaml:5:22: error[SE0120]: no document defines the ClusterProvider `edge` (add one: `kind: ClusterProvider` with this name)");
}

#[test]
fn a_provider_that_joins_others_changes_with_them() {
    let mut world = World::default();
    let joint = PROVIDER
        .replace("name: edge", "name: joint")
        .replace("kubeconfig: {connection: target}", "multi: [edge, cloud]");
    let all = mapping("m", "x: $.x").replace("apiExport: {name: m}", "provider: joint");
    world.files.readable.insert("m.yaml".into(), all.clone().into_bytes());
    world.files.readable.insert("joint.yaml".into(), joint.into_bytes());
    insta::assert_snapshot!(world.write("p.yaml", PROVIDER), @r"
    mapping m: generation 1: added
    provider edge: added
    provider joint: added
    joint.yaml:3:18: error[SE0120]: no document defines the ClusterProvider `cloud`, which `joint` joins (`multi` joins providers of plain clusters; the others of its list are served)
    ");
    let cloud = PROVIDER.replace("name: edge", "name: cloud");
    insta::assert_snapshot!(world.write("cloud.yaml", &cloud), @r"
    provider cloud: added
    provider joint: changed
    ");
    insta::assert_snapshot!(world.write("p.yaml", &PROVIDER.replace("target", "other")), @r"
    provider edge: changed
    provider joint: changed
    ");
    let joint = world.catalog.providers().find(|one| one.name == "joint").expect("the provider").clone();
    // As the provider of a mapping does, each goes on where its document breaks.
    insta::assert_snapshot!(world.write("cloud.yaml", &cloud[..40]).lines().next_back().unwrap_or_default(), @"joint.yaml:3:18: error[SE0120]: no document defines the ClusterProvider `cloud` any more, which `joint` joins (its last version stays in use; take it out of the list to do without it)");
    assert_eq!(world.catalog.providers().find(|one| one.name == "joint"), Some(&joint));
    // A state store keeps it with those that it joins.
    let mut after = World::default();
    after.retained.insert("m".into(), format!("{}\n---\n{all}", joint.document()).into());
    after.write("a.yaml", &mapping("other", "x: $.x"));
    assert_eq!(after.catalog.providers().find(|one| one.name == "joint"), Some(&joint));
}

#[test]
fn what_the_state_store_knows_of_a_provider_serves_a_mapping_without_files() {
    let mut world = World::default();
    let edge = mapping("m", "x: $.x").replace("apiExport: {name: m}", "provider: edge");
    world.retained.insert("m".into(), format!("{edge}\n---\n{PROVIDER}").into());
    world.write("a.yaml", &mapping("other", "x: $.x"));
    assert_eq!(world.standing("m"), Some((Standing::Retained, 1)));
    let kept = provider(&world.catalog).expect("the provider of the state store").clone();
    // A document counts more.
    world.write("p.yaml", &PROVIDER.replace("target", "other"));
    assert_ne!(provider(&world.catalog), Some(&kept));
    assert!(provider(&world.catalog.forget("m")).is_some());
}

#[test]
fn what_the_state_store_knows_of_a_provider_serves_a_mapping_whose_provider_is_broken_at_the_start() {
    let mut world = World::default();
    let all = "clusters: {matchLabels: {a: b}}";
    let edge = mapping("m", "x: $.x").replace("apiExport: {name: m}", &format!("provider: edge, {all}"));
    let namespaces = PROVIDER.replace("kubeconfig", "namespaces");
    world.files.readable.insert("p.yaml".into(), namespaces.replace("namespaces", "namespace").into_bytes());
    let said = world.write("m.yaml", &edge);
    let of_the_mapping = "m.yaml:5:22: error[SE0120]: the document of the ClusterProvider `edge` has errors";
    assert!(said.contains(of_the_mapping), "before the state store is read: {said}");
    world.retained.insert("m".into(), format!("{edge}\n---\n{namespaces}").into());
    let said = world.reload();
    assert!(said.contains("`edge` any more; its last version stays in use"), "{said}");
    assert_eq!(world.standing("m"), Some((Standing::Running, 1)));
    assert!(matches!(provider(&world.catalog).map(|it| &it.kind), Some(ProviderKind::Namespaces(_))));
    // What its kind does not give is refused as ever.
    let mut other = World { files: world.files.clone(), retained: world.retained.clone(), ..World::default() };
    let said = other.write("m.yaml", &edge.replace("matchLabels", "matchProperties"));
    assert!(said.contains("error[SE0114]: the ClusterProvider `edge` tells no properties"), "{said}");
}

/// As where another build refuses it: the process that starts with that build knows it from the state store alone.
#[test]
fn what_the_state_store_knows_runs_on_where_its_file_is_refused_at_the_start() {
    let mut world = World::default();
    world.write("first.yaml", &mapping("first", "a: $.x"));
    let second = mapping("second", "a: $.x").replace("{name: second}, resource", "{name: first}, resource");
    assert!(world.write("second.yaml", &second).contains("error[SE0701]"), "before the state store is read");
    assert_eq!(world.standing("second"), None);
    world.retained.insert("second".into(), mapping("second", "b: $.x").into());
    let said = world.reload();
    assert!(said.contains("[mapping `second` keeps running generation 1]"), "{said}");
    assert_eq!(world.standing("second"), Some((Standing::KeptOnError, 1)));
    world.remove("second.yaml");
    assert!(world.catalog.mapping("second").is_some_and(|entry| entry.removal_seen), "it was there");
    // What was removed does not come back with a file that is refused.
    assert!(world.write("second.yaml", &second).contains("error[SE0701]"));
    assert_eq!(world.standing("second"), Some((Standing::Retained, 1)));
}

#[test]
fn what_the_inventory_knows() {
    let mut world = World::default();
    world.retained.insert("mongodb".into(), mapping("mongodb", "x: $.x").into());
    world.retained.insert("old".into(), "apiVersion: sync-engine.dev/v0\n".into());
    // An unreadable file may hold anything: the last good version runs.
    insta::assert_snapshot!(world.write("a.yaml", "{{{"), @r#"
    mapping mongodb: its document cannot be used or found; generation 1 keeps running
    a.yaml:1:1: error[SE0001]: YAML reads this expression as structure (a value that begins with `{` is a map to YAML: write `${{ x }}`, or put a text in quotes, `"{{ x }}-text"`) [mapping `mongodb` keeps running generation 1]
    "#);
    assert_eq!(world.standing("mongodb"), Some((Standing::KeptOnError, 1)));
    // The file is good, and does not name it: deletions only, and the removal was not seen by this engine.
    insta::assert_snapshot!(world.write("a.yaml", &mapping("other", "x: $.x")), @r"
    mapping mongodb: removed with generation 1; its objects stay until their sources are deleted, unless its onMappingRemoved says otherwise
    mapping other: generation 1: added
    ");
    assert_eq!(world.standing("mongodb"), Some((Standing::Retained, 1)));
    assert!(!world.catalog.mapping("mongodb").expect("retained").removal_seen);
    // The inventory is read anew.
    let inventory = std::mem::take(&mut world.retained);
    world.write("a.yaml", &mapping("other", "y: $.y"));
    assert_eq!(world.standing("mongodb"), Some((Standing::Retained, 1)));
    world.retained = inventory;
    // The file breaks: it held another mapping, and brings this one not back.
    world.write("a.yaml", "{{{");
    assert_eq!(world.standing("other"), Some((Standing::KeptOnError, 2)));
    assert_eq!(world.standing("mongodb"), Some((Standing::Retained, 1)));

    let mut named = World { retained: world.retained.clone(), ..World::default() };
    insta::assert_snapshot!(named.write("a.yaml", "kind: Mapping\nmetadata: {name: mongodb}\n"), @r"
    mapping mongodb: its document cannot be used or found; generation 1 keeps running
    a.yaml:1:1: error[SE0103]: the field `apiVersion` is missing [mapping `mongodb` keeps running generation 1]
    a.yaml:1:1: error[SE0103]: the field `spec` is missing [mapping `mongodb` keeps running generation 1]
    ");
    assert_eq!(named.standing("mongodb"), Some((Standing::KeptOnError, 1)));
    insta::assert_snapshot!(named.write("a.yaml", &mapping("mongodb", "x: $.x")), @"mapping mongodb: its document is good again; generation 1 keeps running");
}

/// A mapping of the databases that the schemas describe.
fn checked(name: &str, data: &str) -> String {
    format!(
        "apiVersion: sync-engine.dev/v1alpha1\nkind: Mapping\nmetadata: {{name: {name}}}\nspec:\n  source: {{apiExport: {{name: {name}}}, \
         resource: databases.v1.example.com}}\n  objects:\n    - id: w\n      template: {{apiVersion: v1, kind: ServiceAccount, data: {{a: \"{data}\"}}}}\n"
    )
}

/// An engine refuses what `validate` refuses, keeps what ran, and says its warnings of what runs.
#[test]
fn what_the_schemas_refuse_does_not_run() {
    let mut world = World::checking();
    let (good, bad) = (checked("db", "{{ source.spec.type }}"), checked("db", "{{ source.spec.typ }}"));
    insta::assert_snapshot!(world.write("a.yaml", &bad), @"a.yaml:8:82: error[SE0401]: `source.spec.typ` does not exist in Database (example.com/v1) (did you mean `source.spec.type` (a string)?)");
    assert_eq!(world.standing("db"), None);
    insta::assert_snapshot!(world.write("a.yaml", &good), @"mapping db: generation 1: added");
    insta::assert_snapshot!(world.write("a.yaml", &bad), @"
    mapping db: its document cannot be used or found; generation 1 keeps running
    a.yaml:8:82: error[SE0401]: `source.spec.typ` does not exist in Database (example.com/v1) (did you mean `source.spec.type` (a string)?) [mapping `db` keeps running generation 1]
    ");
    assert_eq!(world.standing("db"), Some((Standing::KeptOnError, 1)));
    insta::assert_snapshot!(world.write("a.yaml", &good), @"mapping db: its document is good again; generation 1 keeps running");
    let warned = good.replace(", data: {a:", ", spec: {namespace:");
    insta::assert_snapshot!(world.write("a.yaml", &warned), @"
    mapping db: generation 2: template of object w changed
    a.yaml:8:74: warning[SE0703]: what a consumer writes reaches a namespace: `spec.namespace` (`${{ placement.namespace }}` is the tenant's own; `without(…)` leaves a field out)
    ");
    assert_eq!(world.standing("db"), Some((Standing::Running, 2)));
}

/// All mappings of a resource together read what consumers can set.
#[test]
fn what_no_mapping_reads_is_said_once() {
    let mut world = World::checking();
    let quiet = |name: &str, data: &str| {
        let mapping = checked(name, data).replace(&format!("{{name: {name}}}, resource"), "{name: one}, resource");
        mapping + "  status: {engineConditions: [], observedGeneration: Off}\n"
    };
    let shown = |world: &World| {
        let found = world.catalog.unread(world.catalog.schemas.as_ref().expect("schemas"));
        let line = |Diagnostic { finding, spot, .. }: &Diagnostic| {
            format!("{}:{}: {}: {}", spot.file, spot.line, finding.code, finding.message)
        };
        found.iter().map(line).collect::<Vec<_>>()
    };
    world.write("a.yaml", &quiet("a", "{{ source.spec.type }}"));
    let some = "{{ source.spec.members | default(1) }}{{ source.spec.region | default('') }}";
    world.write("b.yaml", &quiet("b", &some.replace('\'', "\\\"")));
    insta::assert_snapshot!(shown(&world).join("\n"), @"a.yaml:5: SE0405: no mapping reads `spec.backupNamespace`, `spec.free`, `spec.plan`, `spec.port`, `spec.sidecars`, `spec.tls`, `spec.users` of Database (example.com/v1)");
    world.write("b.yaml", &quiet("b", "{{ source.spec | tojson }}"));
    assert_eq!(shown(&world), Vec::<String>::new());
    // Whoever asks whether a map is there, or leaves a field out, does not read it.
    let asks =
        "{{ 1 if source.spec.tls is defined else 2 }}{{ source.spec | without(\\\"tls\\\", \\\"plan\\\") | tojson }}";
    world.write("b.yaml", &quiet("b", asks));
    insta::assert_snapshot!(shown(&world).join("\n"), @"a.yaml:5: SE0405: no mapping reads `spec.plan`, `spec.tls.enabled`, `spec.tls.secret` of Database (example.com/v1)");
    // What a copy's values are made of is read as well.
    let copy = "  related:
    - {id: a, direction: ToTarget, resource: secrets.v1, from: {name: \"{{ source.metadata.name }}\"},
       data: {transform: {a: \"{{ value }}{{ source.spec.plan | default('') }}\"}}}\n";
    world.write("b.yaml", &(quiet("b", asks) + copy));
    insta::assert_snapshot!(shown(&world).join("\n"), @"a.yaml:5: SE0405: no mapping reads `spec.tls.enabled`, `spec.tls.secret` of Database (example.com/v1)");
    // A document that cannot be used may be the one that reads.
    world.write("b.yaml", &quiet("b", "{{ source.spec.typ }}"));
    assert_eq!(shown(&world), Vec::<String>::new());
}

#[test]
fn a_thousand_mappings() {
    let mut world = World::default();
    for number in 0..1000 {
        world.files.readable.insert(format!("m{number}.yaml"), mapping(&format!("m{number}"), "x: $.x").into_bytes());
    }
    assert_eq!(world.reload().lines().count(), 1000);
    assert_eq!(world.write("m7.yaml", &mapping("m7", "y: $.y")).lines().count(), 1);
}
