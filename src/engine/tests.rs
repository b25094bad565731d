use std::sync::atomic::{AtomicUsize, Ordering};

use super::inventory::document_hash;
use super::*;
use crate::health::{self, Level};
use crate::mapping::SourceClusters;
use crate::release::ledger::Ledger;
use crate::release::waves::{Stage, Underway};
use crate::server::metrics::Format;

/// With these connections, the first one to its home.
pub(super) fn settings(connections: &[&str]) -> Settings {
    Settings {
        engine: "main".into(),
        inventory_namespace: "sync-engine".into(),
        home: connections[0].into(),
        connections: connections.iter().map(|name| ((*name).into(), target::tests::connection())).collect(),
        ..Settings::default()
    }
}

/// The same of an engine that does not run.
pub(super) fn engine(connections: &[&str]) -> (Engine, mpsc::Receiver<Event>) {
    let (events, received) = mpsc::channel(64);
    let shared = Arc::new(Shared::new(settings(connections), Instruments::default(), Recorder::default()));
    (Engine::new(shared, JoinSet::new(), events), received)
}

/// A mapping with one object; `more`: further fields of its spec.
pub(super) fn document(name: &str, kind: &str, more: &str) -> String {
    format!(
        r#"apiVersion: sync-engine.dev/v1alpha1
kind: Mapping
metadata: {{name: {name}}}
spec:
  source: {{apiExport: {{name: widgets, path: "root:widgets"}}, resource: widgets.v1.example.dev}}
  objects:
    - {{id: copy, template: {{apiVersion: v1, kind: {kind}}}}}
{more}"#
    )
}

/// An engine with one mapping, whose document the state store holds.
pub(super) fn serving_one() -> (Engine, Arc<Pipeline>) {
    serving("")
}

/// The same, with more in the document's spec.
pub(super) fn serving(more: &str) -> (Engine, Arc<Pipeline>) {
    let (mut engine, _) = engine(&[DEFAULT_TARGET]);
    write(&mut engine, document("first", "ConfigMap", more));
    let pipeline = engine.pipelines_of("first").next().expect("it runs").clone();
    store(&pipeline, "");
    (engine, pipeline)
}

/// The same, where the file holds another document by now; and the release of that, at a stage.
pub(super) fn edited(more: &str) -> (Engine, Arc<Pipeline>, impl Fn(Stage) -> Progress) {
    let (mut engine, pipeline) = serving(more);
    let (in_force, candidate) = (pipeline.generation().mapping.text.clone(), document("first", "ServiceAccount", more));
    write(&mut engine, candidate.clone());
    (engine, pipeline, move |stage| release(&candidate, &in_force, stage, None))
}

/// What makes another text of a document, which tells its sources nothing.
pub(super) const OFF: &str = "  status: {engineConditions: [], observedGeneration: Off}\n";

pub(super) fn wave(wave: usize) -> Stage {
    Stage::Wave(Underway { wave, ..Underway::default() })
}

/// How far the release of a candidate over this document is.
pub(super) fn release(candidate: &str, in_force: &str, stage: Stage, ledger: Option<Ledger>) -> Progress {
    let (release, in_force) = (document_hash(candidate, in_force), document_hash(in_force, ""));
    Progress { release, in_force, candidate: candidate.to_owned(), stage, ledger }
}

/// The file holds this document.
pub(super) fn write(engine: &mut Engine, text: String) {
    write_all(engine, vec![("first.yaml", text)]);
}

/// These are all files.
pub(super) fn write_all(engine: &mut Engine, files: Vec<(&str, String)>) {
    let readable = files.into_iter().map(|(path, text)| (path.to_owned(), text.into_bytes())).collect();
    engine.files = Arc::new(Files { readable, ..Files::default() });
    engine.update();
}

/// The state store holds the document of the file, and names this release.
pub(super) fn store(pipeline: &Pipeline, release: &str) {
    let (generation, resource_version, release) = (pipeline.generation(), "1".to_owned(), release.to_owned());
    let document = generation.mapping.text.clone();
    pipeline.confirm(&generation, Ok(Inventory { document, resource_version, release, ..Inventory::default() }));
}

pub(super) fn home_says(engine: &mut Engine, progress: Option<Progress>) {
    let term = Some(engine.shared.lease.number());
    let progress = progress.map(|progress| ("first".to_owned(), progress)).into_iter().collect();
    let asked = engine.releases.borrow().asked;
    engine.releases_known(Releases { term, asked, progress, ..Releases::default() });
}

#[tokio::test]
async fn a_mapping_that_waits_for_the_edit_of_another_one_waits_also_while_its_target_is_read_anew() {
    let edited = document("first", "ConfigMap", OFF);
    let files = vec![("first.yaml", edited), ("second.yaml", document("second", "ServiceAccount", ""))];
    let store = || Inventory {
        mapping: "first".into(),
        document: document("first", "ConfigMap", "").into(),
        resource_version: "1".into(),
        ..Inventory::default()
    };
    let (mut engine, _received) = engine(&[DEFAULT_TARGET]);
    let running = |engine: &Engine| engine.pipelines.keys().map(|slot| slot.mapping.clone()).collect::<Vec<_>>();
    write_all(&mut engine, files);
    assert_eq!(running(&engine), ["first", "second"]);
    engine.learn(DEFAULT_TARGET.to_owned(), vec![Ok(store())]);
    engine.recorded(&Slot::of("first"), store());
    assert_eq!(running(&engine), ["first"], "both would write the condition `Synced`");
    engine.leadership();
    engine.converge();
    assert_eq!(running(&engine), ["first"]);
}

/// One edit may rename a provider where it stands, and in the mapping: the same sources are served by both documents.
#[tokio::test]
async fn a_document_in_force_goes_on_with_its_provider_until_another_one_takes_its_place() {
    let export = r#"apiExport: {name: widgets, path: "root:widgets"}"#;
    let of = |provider: &str| document("first", "ConfigMap", "").replace(export, &format!("provider: {provider}"));
    let defined = |name: &str| {
        format!(
            "apiVersion: sync-engine.dev/v1alpha1\nkind: ClusterProvider\nmetadata: {{name: {name}}}\n\
             spec: {{kubeconfig: {{connection: target}}}}\n"
        )
    };
    let whole = |name: &str| format!("{}---\n{}", of(name), defined(name));
    let known = |engine: &Engine, name: &str| {
        engine.shared.manager.document(&SourceClusters::Provider(name.to_owned())).is_some()
    };
    let (mut engine, _received) = engine(&[DEFAULT_TARGET]);
    write(&mut engine, whole("edge"));
    let pipeline = engine.pipelines_of("first").next().expect("it runs").clone();
    store(&pipeline, "");
    write(&mut engine, whole("other"));
    assert!(engine.in_force.contains_key("first"));
    assert_eq!(["edge", "other"].map(|name| known(&engine, name)), [true, true]);
    // A process that starts knows it from the state store alone.
    let recorded = || Inventory {
        mapping: "first".into(),
        document: of("edge").into(),
        provider: defined("edge"),
        resource_version: "1".into(),
        ..Inventory::default()
    };
    let (mut engine, _received) = self::engine(&[DEFAULT_TARGET]);
    write(&mut engine, whole("other"));
    engine.learn(DEFAULT_TARGET.to_owned(), vec![Ok(recorded())]);
    assert!(!known(&engine, "edge"));
    engine.recorded(&Slot::of("first"), recorded());
    assert_eq!(["edge", "other"].map(|name| known(&engine, name)), [true, true]);
    // Where the edit is taken back, nothing needs the other one.
    write(&mut engine, whole("edge"));
    assert_eq!(["edge", "other"].map(|name| known(&engine, name)), [true, false]);
}

/// The record of what is held would be deleted otherwise, with what a person decided on it, at each start of an engine whose targets are
/// found later, or that has not heard yet which document its state store holds. Once it is known, nothing is left of a rejection.
#[tokio::test]
async fn whether_a_mapping_holds_anything_is_not_known_before_it_runs() {
    for (more, is_told, is_known) in
        [("", true, true), ("", false, false), ("  target: {cluster: elsewhere}\n", true, false)]
    {
        let (mut engine, _received) = engine(&[DEFAULT_TARGET]);
        write(&mut engine, document("first", "ConfigMap", more));
        let pipelines: Vec<Arc<Pipeline>> = engine.pipelines_of("first").cloned().collect();
        assert_eq!(!pipelines.is_empty(), more.is_empty());
        pipelines.iter().for_each(|pipeline| store(pipeline, ""));
        pipelines.iter().filter(|_| is_told).for_each(|pipeline| pipeline.told_store());
        engine.reject_candidate("first", Held::default());
        home_says(&mut engine, None);
        engine.tell_held();
        assert_eq!(engine.all_held.borrow().contains_key("first"), is_known, "{more}, {is_told}");
        assert_eq!(engine.rejected.contains_key("first"), !is_known, "{more}, {is_told}");
    }
}

/// Another process may have led in between: a person may have approved what was rejected, and a state store may hold a later document.
#[tokio::test]
async fn what_was_read_in_a_former_term_counts_no_more_where_it_is_told_in_the_next_one() {
    let (mut engine, _received) = engine(&[DEFAULT_TARGET]);
    let rejects = |term| Event::Decided(term, "first".to_owned(), Held::default(), Decision::Reject);
    let lease = engine.shared.lease.clone();
    let former = lease.number();
    engine.handle(rejects(former));
    assert!(engine.rejected.contains_key("first"));
    lease.lose();
    lease.take(None, None);
    engine.handle(Event::Leadership);
    for (term, counts) in [(former, false), (lease.number(), true)] {
        engine.handle(rejects(term));
        engine.handle(Event::Retained(term, DEFAULT_TARGET.to_owned(), Vec::new()));
        assert_eq!((engine.rejected.contains_key("first"), engine.read.contains(DEFAULT_TARGET)), (counts, counts));
    }
}

/// Nobody has its ledger any more: what sources would lose beyond what was counted went at once.
#[tokio::test]
async fn a_removal_that_is_under_way_is_rehearsed_once_more_in_the_next_term() {
    let (mut engine, pipeline) = serving("  lifecycle: {onMappingRemoved: Delete}\n");
    write_all(&mut engine, Vec::new());
    engine.in_force.remove("first").expect("it waits");
    engine.removed.insert("first".to_owned());
    engine.converge();
    let phase = || pipeline.generation().phase;
    assert!(matches!(phase(), Phase::Leaving(_)));
    let lease = engine.shared.lease.clone();
    lease.lose();
    lease.take(None, None);
    pipeline.leadership(lease.number());
    assert_eq!(phase(), Phase::DeletionsOnly, "the engine may hear of the term later");
    engine.handle(Event::Leadership);
    assert!(engine.in_force.contains_key("first") && phase() == Phase::DeletionsOnly);
}

#[tokio::test]
async fn a_mapping_that_is_removed_before_it_ran_is_forgotten() {
    let (mut engine, _received) = engine(&[DEFAULT_TARGET]);
    let health = engine.shared.instruments.health.clone();
    let told = || health.standings().into_iter().find(|one| one.component == "mapping first").map(|one| one.condition);
    write(&mut engine, document("first", "ConfigMap", "  target: {cluster: elsewhere}\n"));
    let condition = told().expect("it does not run");
    assert_eq!(condition.level, Level::Waiting);
    assert!(condition.message.contains("--connection elsewhere="), "{}", condition.message);
    write_all(&mut engine, Vec::new());
    assert_eq!((told(), engine.catalog.mappings().count()), (None, 0));
}

#[tokio::test]
async fn errors_in_documents_are_counted() {
    let (mut engine, _received) = engine(&[DEFAULT_TARGET]);
    let misspelt = document("first", "ConfigMap", "").replace("template:", "tempalte:");
    write_all(&mut engine, vec![("broken.yaml", "kind: {Mapping\n".to_owned()), ("first.yaml", misspelt)]);
    engine.tick();
    let metrics = engine.shared.instruments.metrics.encode(Format::OpenMetrics).expect("a text");
    assert!(metrics.contains("\nsync_engine_invalid_documents 2\n"), "{metrics}");
}

#[tokio::test(start_paused = true)]
async fn a_task_that_panics_begins_anew_and_one_that_ends_does_not() {
    let begun = AtomicUsize::new(0);
    let begin = || {
        let number = begun.fetch_add(1, Ordering::Relaxed);
        async move { assert!(number > 1, "a bug") }
    };
    for_good("it", begin).await;
    assert_eq!(begun.load(Ordering::Relaxed), 3);
}

/// A document that took the place of another one meanwhile would be served nowhere before home is back.
#[tokio::test(start_paused = true)]
async fn home_that_is_no_mappings_target_is_known_to_be_lost() {
    let (instruments, (_reloads, received)) = (Instruments::default(), mpsc::channel(1));
    let (known, mut changes) = (instruments.health.clone(), instruments.health.changes());
    let is_lost = |one: &health::Standing| one.component == "target hub" && one.condition.level == Level::Waiting;
    let told = async {
        while !known.standings().iter().any(is_lost) {
            changes.advanced().await;
        }
    };
    tokio::select! {
        () = run(settings(&["hub"]), received, instruments, CancellationToken::new()) => panic!("nobody ends it"),
        told = timeout(Duration::from_secs(600), told) => told.expect("home gives no answer"),
    }
}

/// An edit that was taken back may have named it.
#[tokio::test]
async fn a_target_that_no_document_names_any_more_leaves_the_engine_ready() {
    let (mut engine, _received) = engine(&["home", "other"]);
    let health = engine.shared.instruments.health.clone();
    for name in ["home", "other"] {
        assert!(engine.target(name).is_some());
        for what in ["target", "state stores on target"] {
            health.set(&format!("{what} {name}"), Condition::waiting("it gives no answer"));
        }
    }
    engine.converge();
    let lost = health.standings().into_iter().map(|one| one.component).filter(|one| one.contains("target "));
    let of_home = ["state stores on target home", "target home"];
    assert_eq!(lost.collect::<Vec<_>>(), of_home, "each edit waits for home");
}

/// Then their author has done what it asks for.
#[tokio::test]
async fn connections_to_one_cluster_are_told_no_more_once_the_documents_name_one_of_them() {
    let (mut engine, _received) = engine(&["home", "other"]);
    let engaged = ["home", "other"].map(|name| {
        assert!(engine.target(name).is_some());
        ClusterEvent::Engaged(Arc::new(target::tests::cluster(name)))
    });
    engine.clusters(engaged.into());
    let health = engine.shared.instruments.health.clone();
    let is_told = || health.standings().iter().any(|one| one.component == "connections to one cluster");
    assert!(is_told());
    engine.converge();
    assert!(!is_told());
}
