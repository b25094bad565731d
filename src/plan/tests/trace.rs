//! Why a source is as it is, and the same from a file on another machine.

use serde_json::{Value, json};

use super::copies::{related, with};
use super::world::{World, foreign};
use super::{
    CHAIN, DATABASES, changed, database, db, deleted_at, drift, exit, fresh, hold, leave_filter, mapping, of, recreate,
    spec, synced,
};
use crate::mapping::Mapping;
use crate::object::hash::tuple_hash;
use crate::object::marks::Reference;
use crate::plan::saved::{Context, Saved, Unreadable};
use crate::plan::trace::{Past, Trace};
use crate::plan::{Cause, Prune, Reason};

const VERSION: &str = "1.2.3";

fn mask(value: &str) -> String {
    format!("redacted-{}", tuple_hash([value], 5))
}

fn saved(world: &World, mapping: &Mapping) -> Saved {
    let observed = world.rested.as_ref().expect("it came to rest");
    let context = Context { version: VERSION.into(), file: "databases.yaml".into(), line: 1, past: Past::default() };
    Saved::of(mapping, observed, context, &mask).expect("it can be kept")
}

/// The engine has one thread, and looks for each value in all that it knows of a source.
#[test]
fn what_would_take_long_to_be_searched_for_secrets_is_not_kept() {
    let (world, mapping) = (synced(), mapping(DATABASES));
    let mut observed = world.rested.expect("it came to rest");
    let mut refusal = |values: usize| {
        let data: Value = (0..values).map(|number| (format!("key{number}"), format!("{number:08}"))).collect();
        let secret = json!({"kind": "Secret", "metadata": {"name": "large"}, "data": data});
        observed.answers.foreign.insert(Reference::namespace("large"), secret.into());
        Saved::of(&mapping, &observed, Context::default(), &mask).err().map(|error| error.to_string())
    };
    assert_eq!(refusal(10), None);
    assert!(refusal(20_000).is_some_and(|why| why.contains("too many values to leave them out of a trace")));
}

/// What another machine makes of the file, which has to be what this one makes of it.
fn replayed(world: &World, mapping: &Mapping) -> Trace {
    let saved = saved(world, mapping);
    assert!(saved.is_same_without_secrets, "{:?}", saved.trace());
    let file = serde_json::to_vec(&saved).expect("JSON");
    let replayed = Saved::read(&file, VERSION).expect("it is of this version").trace().expect("a trace");
    assert_eq!(replayed, saved.trace().expect("a trace"));
    let here = Trace::of(mapping, world.rested.as_ref().expect("it came to rest"), None, Past::default());
    assert_eq!((replayed.verdict, &replayed.reasons), (here.verdict, &here.reasons));
    replayed
}

/// `Conflict: live, in; finalizer; foreign`
fn decided(trace: &Trace) -> String {
    let reasons: Vec<&str> = trace.reasons.iter().map(|said| said.reason.as_str()).collect();
    let rows = trace.objects.iter().map(|one| {
        let row = one.row.as_deref().unwrap_or("-");
        format!("  {}: {row} -> {}\n", one.id, one.verdict.as_deref().unwrap_or("-"))
    });
    format!("{:?} {}\n{}", trace.verdict, reasons.join(", "), rows.collect::<String>())
}

#[test]
#[rustfmt::skip]
fn each_reason_names_the_row_that_decided_also_from_a_file() {
    let (databases, of_synced) = (mapping(DATABASES), synced().reference("Database"));
    let failing = changed("spec: ${{ source.spec }}", "spec: {size: \"${{ source.spec.missing }}\"}");
    let claims = |world: &mut World| {
        world.edit_source(|source| source["spec"] = json!({"users": ["ann"]}));
        world.seen.consumer.claims = Some([].into_iter().collect());
    };
    let cases: [(&str, World, &Mapping); 18] = [
        ("in sync", synced(), &databases),
        ("somebody else's object", fresh().with(|world| drop(world.objects.insert(of_synced, foreign()))), &databases),
        ("a kind out of sight", fresh().with(|world| world.unsee(&database())), &databases),
        ("no target", fresh().with(|world| world.target_unknown = Some("target `t`: connection refused".into())), &databases),
        ("a field that is missing", fresh(), &failing),
        ("refused by admission", fresh().with(|world| world.refuses = vec!["create Database".into()]), &databases),
        ("created anew", synced().with(recreate), &spec("lifecycle: {onSourceRecreated: Block}")),
        ("held", synced().with(|world| world.seen.limits.prune = Prune::none()), &db("when: ${{ source.spec.members > 3 }}")),
        ("a deletion that hangs", synced().with(hold).with(World::delete_source), &databases),
        ("out of the filter", synced().with(leave_filter), &exit("Retain")),
        ("gone, and nobody saw it", synced().with(|world| world.source = None), &databases),
        ("what others depend on", fresh().with(|world| world.refuses = vec!["create ConfigMap".into()]), &mapping(CHAIN)),
        ("drift that is reported", synced().with(drift), &db("drift: Report")),
        ("another target", synced().with(|world| world.identity = "target-2".into()), &databases),
        ("being deleted", synced().with(|world| deleted_at(world, "2027-01-15T07:59:00Z")), &databases),
        ("another kind", synced(), &changed("kind: Database\n", "kind: Cluster\n")),
        ("a status that is refused", fresh().with(|world| world.refused_status = vec![json!("Pending")]), &databases),
        ("a claim that is not accepted", fresh().with(claims), &related()),
    ];
    let mut told = String::new();
    for (case, mut world, mapping) in cases {
        world.settle(mapping);
        told += &format!("{case}: {}", decided(&replayed(&world, mapping)));
    }

    let mut world = synced();
    let reference = world.reference("Database");
    let failure = Reason { cause: Cause::RequestFailed, detail: format!("{reference}: 500 InternalError") };
    drift(&mut world);
    let mut observed = world.observe(&databases);
    observed.answers.failed.insert(reference, failure);
    world.rested = Some(observed);
    told += &format!("a request that failed: {}", decided(&replayed(&world, &databases)));
    insta::assert_snapshot!(told);
}

#[test]
fn what_differs_is_told_with_its_line_and_expression() {
    let mut world = synced();
    let reports = db("drift: Report");
    drift(&mut world);
    world.settle(&reports);
    let trace = replayed(&world, &reports);
    let differs = &trace.objects.iter().find(|one| one.id == "db").expect("it is traced").differs;
    insta::assert_snapshot!(serde_json::to_string(differs).expect("JSON"));
}

#[test]
fn whose_object_is_in_the_way_is_told_as_far_as_it_tells() {
    let databases = mapping(DATABASES);
    let mut theirs = fresh();
    let mut object = foreign();
    object["metadata"]["labels"] = json!({"app.kubernetes.io/managed-by": "Helm"});
    theirs.objects.insert(synced().reference("Database"), object);
    theirs.settle(&databases);
    let trace = replayed(&theirs, &databases);
    let of_db = trace.objects.iter().find(|one| one.id == "db").expect("it is traced");
    assert_eq!(of_db.holder.as_deref(), Some("Helm (app.kubernetes.io/managed-by)"));
    assert!(of_db.differs.is_empty(), "what is in it is not the engine's business");
}

const PASSWORD: &str = r#"  objects:
    - id: login
      template: {apiVersion: v1, kind: Secret, stringData: {password: "${{ source.spec.password }}", pin: "${{ source.spec.pin }}"}}
    - id: db
      template:
        apiVersion: example.dev/v1
        kind: Database
        spec: {uri: "db://admin:{{ source.spec.password }}@db", pin: "${{ source.spec.pin }}"}
"#;

/// What is rendered from a secret is another text afterwards, and has another hash.
#[test]
fn no_value_of_a_secret_is_kept_and_the_decision_is_the_same() {
    let login = mapping(PASSWORD);
    let mut world = of(json!({"password": "hunter22", "pin": "1234"}));
    world.sync(&login);
    // As a server stores it.
    world.edit("Secret", |secret| {
        secret["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"] = json!("pin 1234");
    });
    let secrets = ["hunter22", "aHVudGVyMjI=", "1234", "MTIzNA=="];
    for drifts in [false, true] {
        if drifts {
            world.edit("Database", |database| database["spec"]["pin"] = json!("0000"));
        }
        let mut observed = world.observe(&login);
        // A server may quote what it refuses.
        let refused = Reason { cause: Cause::Refused, detail: "`hunter22` is too short".into() };
        observed.answers.failed.insert(Reference::namespace("another"), refused);
        world.rested = Some(observed);
        let trace = replayed(&world, &login);
        let file = serde_json::to_string(&saved(&world, &login)).expect("JSON");
        let shown = serde_json::to_string(&trace).expect("JSON");
        for secret in secrets {
            assert!(!file.contains(secret) && !shown.contains(secret), "{secret}");
        }
        let row = trace.objects.iter().find(|one| one.id == "db").and_then(|one| one.verdict.clone());
        assert_eq!(row.as_deref(), Some(if drifts { "Apply" } else { "Nothing" }));
    }
}

#[test]
fn copies_of_secrets_are_compared_without_their_values() {
    let related = related();
    let mut world = with(&["ann"]);
    // The name of the copy has it too.
    world.originals[0].1["data"]["user"] = json!("YW5u");
    world.settle(&related);
    replayed(&world, &related);
    let file = serde_json::to_string(&saved(&world, &related)).expect("JSON");
    assert!(!file.contains("cA==") && !file.contains("YW5u"));
}

#[test]
fn what_another_version_saved_is_refused_by_both_names() {
    let file = serde_json::to_vec(&saved(&synced(), &mapping(DATABASES))).expect("JSON");
    let refused = Saved::read(&file, "2.0.0").expect_err("it is of an earlier version");
    assert_eq!(refused, Unreadable::OtherVersion { saved: VERSION.into(), own: "2.0.0".into() });
    assert!(refused.to_string().contains("1.2.3") && refused.to_string().contains("2.0.0"), "{refused}");
    for other in [json!({"kind": "Mapping"}), Value::Null] {
        let refused = Saved::read(other.to_string().as_bytes(), VERSION).expect_err("it is no trace");
        assert!(matches!(refused, Unreadable::NotSaved(_)), "{refused}");
    }
}
