use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::diagnostic::Diagnostic;
use crate::tests::{each, mapping, rendered};
use crate::{Amount, Members, OnFailure, SourceClusters, SourceVanished, StatusValue};

const GOOD: &str = include_str!("../../../../tests/ui/documents/good.yaml");

/// Every diagnostic of a file, and what of it compiled.
fn shown(name: &str, file: &str) -> String {
    let mut parts = Vec::new();
    for document in yaml::parse(file.as_bytes()) {
        let outcome = compile(&document);
        parts.extend(rendered(outcome.findings, name, file));
        let compiled = match outcome.compiled {
            Some(Compiled::Mapping(mapping)) => format!("compiled: mapping {}", mapping.name),
            Some(Compiled::ClusterProvider(provider)) => format!("compiled: provider {}", provider.name),
            Some(Compiled::ForAuthors) => "compiled: test".to_owned(),
            None => "not compiled".to_owned(),
        };
        parts.push(compiled);
    }
    parts.join("\n\n")
}

/// Each file of `tests/ui/documents` has the text of its diagnostics beside it.
#[test]
fn diagnostics_of_documents() {
    each("tests/ui/documents", shown);
}

#[test]
fn everything_written_is_kept() {
    let mapping = mapping(GOOD);
    assert_eq!((mapping.name.as_str(), mapping.target.as_str()), ("mongodb", "target"));
    let SourceClusters::ApiExport(export) = &mapping.source.clusters else { panic!("an APIExport") };
    assert_eq!(export.path.as_deref(), Some("root:mongodb"));
    assert_eq!(mapping.source.resource.api_version(), "mongodbcommunity.mongodb.com/v1");
    assert_eq!(mapping.source.selector.match_labels["tier"], "managed");
    assert_eq!(mapping.vars.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["members", "more"]);
    assert!(mapping.objects[0].shared && mapping.objects[0].name.is_some());
    assert!(mapping.objects[1].name.is_none() && mapping.objects[1].orphan_on_delete);
    assert_eq!(mapping.objects[1].kind.to_string(), "MongoDBCommunity (mongodbcommunity.mongodb.com/v1)");
    assert!(mapping.objects[1].ready.is_some() && mapping.objects[1].failed.is_some());
    assert_eq!(mapping.objects[1].ignore[0].text, "/spec/statefulSet/spec/replicas");
    assert_eq!(mapping.status.fields[4].target, ["connection", "secret"]);
    assert!(matches!(&mapping.status.fields[1].from, StatusValue::Path { object, .. } if object == "db"));
    assert_eq!(mapping.status.condition_types().collect::<Vec<_>>(), ["Ready", "BackendReady", "BackendHealthy"]);
    assert_eq!(mapping.lifecycle.stuck_after(), Duration::from_secs(5400));
    assert_eq!(mapping.lifecycle.on_source_vanished, SourceVanished::Delete);
    assert_eq!(mapping.lifecycle.on_source_recreated, Some(SourceRecreated::Replace));
    assert_eq!(mapping.release.max_lost, MaxLost { objects: 100, percent: 20 });
    assert_eq!(mapping.release.max_failing, Amount::Percent(10));
    let waves = &mapping.release.waves;
    assert!(matches!(&waves[0].members, Members::Labeled(selector) if selector.match_labels["tier"] == "canary"));
    assert_eq!((waves[0].soak, waves[0].max_failing), (Duration::from_secs(600), Some(Amount::Number(0))));
    assert_eq!((&waves[1].members, waves[1].may_fail(50)), (&Members::Percent(10), 1));
    assert_eq!((&waves[2].members, waves[2].may_fail(500), waves[2].soak), (&Members::Percent(100), 5, Duration::ZERO));
    assert_eq!(
        (mapping.release.progress_deadline, mapping.release.on_failure),
        (Duration::from_secs(3600), OnFailure::Pause)
    );
    assert_eq!((mapping.reconcile.concurrency, mapping.reconcile.target_writes_per_second), (4, 10));
    assert!(mapping.text.starts_with("# Everything") && mapping.text.ends_with("PerSecond: 10}\n"));
}

/// What nothing reads is not made readable for each plan.
#[test]
fn related_objects_that_expressions_read_are_told_from_the_others() {
    let one =
        |id: &str| format!("    - {{id: {id}, direction: ToTarget, resource: secrets.v1, from: {{name: {id}}}}}\n");
    let related = format!("  related:\n{}{}  objects:\n", one("copied"), one("read"));
    let text = GOOD.replace("  objects:\n", &related).replace("vars.members + 1", "related.read.data.a");
    let mapping = mapping(&text);
    let all: Vec<_> = mapping.related.iter().map(|rule| (&*rule.id, rule.is_read)).collect();
    assert_eq!(all, [("copied", false), ("read", true)]);
}

#[test]
fn dependencies_are_named_or_read() {
    let mapping = mapping(include_str!("../../../../tests/ui/documents/dependencies.yaml"));
    let all: Vec<_> = mapping.objects.iter().map(|rule| (&*rule.id, &rule.depends_on[..])).collect();
    assert_eq!(all, [("view", &[2, 1][..]), ("db", &[2][..]), ("account", &[][..])], "one through two variables");
}

#[test]
fn only_an_api_export_gives_objects_to_a_recreated_source_by_default() {
    let text = include_str!("../../../../tests/ui/documents/small.yaml");
    let (before, rest) = text.split_once("    apiExport:").expect("the source of an APIExport");
    let (_, after) = rest.split_once('\n').expect("one line");
    let mapping = mapping(&format!("{before}    provider: edge\n{after}"));
    assert_eq!(mapping.lifecycle.on_source_recreated, Some(SourceRecreated::Block));
}

#[test]
fn defaults() {
    let mapping = mapping(include_str!("../../../../tests/ui/documents/small.yaml"));
    assert_eq!(mapping.target, "target");
    assert!(mapping.placement.create_namespace && mapping.status.observed_generation);
    assert_eq!(mapping.status.engine_conditions.len(), 1);
    assert_eq!(mapping.lifecycle.stuck_after(), Duration::from_secs(900));
    assert_eq!(mapping.lifecycle.on_source_vanished, SourceVanished::Retain);
    assert_eq!(mapping.lifecycle.on_source_recreated, None);
    assert_eq!(mapping.release.max_lost, MaxLost { objects: 10, percent: 20 });
    assert_eq!(mapping.release.max_failing, Amount::Number(0));
    assert!(mapping.release.waves.is_empty() && mapping.release.on_failure == OnFailure::Return);
    assert_eq!(mapping.release.progress_deadline, Duration::from_secs(900));
    assert_eq!(mapping.reconcile.backoff_max, Duration::from_secs(300));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever an editor leaves behind half-way: a document may be refused, and every diagnostic can be shown.
    #[test]
    fn mutated_documents_never_panic(
        edits in prop::collection::vec((any::<prop::sample::Index>(), 0usize..12, "[ \\n\\t:{}\\[\\]\"'&*!|>%@#$a-z0-9-]{0,3}"), 1..5),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut file = GOOD.as_bytes().to_vec();
        for (at, removed, inserted) in edits {
            let at = at.index(file.len());
            let end = (at + removed).min(file.len());
            file.splice(at..end, inserted.into_bytes());
        }
        if let Some(cut) = cut {
            file.truncate(cut.index(file.len()));
        }
        for document in yaml::parse(&file) {
            for finding in compile(&document).findings {
                Diagnostic::new(finding, "mutated.yaml", &file).render(false);
            }
        }
    }
}

/// What an earlier build had, and what said nothing where it ran.
#[test]
fn documents_of_earlier_builds_are_read() {
    let former = GOOD
        .replace("  source:\n", "  replaces: []\n  source:\n")
        .replace("  lifecycle:\n", "  lifecycle:\n    waitForOtherFinalizers: []\n    pruneGuard: {maxObjects: 1}\n")
        .replace("apply: {", "apply: {strategy: ServerSide, ");
    let document = yaml::parse(former.as_bytes()).remove(0);
    let findings = compile(&document).findings;
    let says_what_to_write = |help: &String| !help.starts_with("known here");
    assert!(findings.iter().all(|finding| finding.help.as_ref().is_some_and(says_what_to_write)), "{findings:?}");
    let found: BTreeSet<_> = findings.into_iter().map(|finding| finding.message).collect();
    let unknown = ["replaces", "strategy", "waitForOtherFinalizers", "pruneGuard"];
    assert_eq!(found, unknown.map(|field| format!("unknown field `{field}`")).into());
    assert!(matches!(compile_kept(&document), Some(Compiled::Mapping(_))));
    let small = include_str!("../../../../tests/ui/documents/small.yaml");
    let beside = small.replace("  objects:\n", "  target: {cluster: workspace}\n  objects:\n");
    let kept = compile_kept(&yaml::parse(beside.as_bytes()).remove(0));
    assert!(matches!(kept, Some(Compiled::Mapping(mapping)) if mapping.is_beside()));
    // This build refuses what had no effect in an earlier one.
    let contradicts = GOOD.replace("createNamespace: true", "createNamespace: false");
    let contradicts = yaml::parse(contradicts.as_bytes()).remove(0);
    assert!(compile(&contradicts).compiled.is_none() && compile_kept(&contradicts).is_some());
}
