//! Copies of related objects: planned as all objects are, and made before what refers to them.

use serde_json::{Value, json};

use super::world::{World, foreign};
use super::{condition, mapping, said, source};
use crate::mapping::{Kind, Mapping, Side};
use crate::object::claims::Claims;
use crate::object::marks::Reference;
use crate::plan::Rest;

/// A password for each user goes to the target, and a connection comes back.
const RELATED: &str = r#"  related:
    - id: passwords
      direction: ToTarget
      resource: secrets.v1
      forEach: ${{ source.spec.users | default([]) }}
      as: user
      key: ${{ user }}
      from: {name: "{{ user }}"}
      to: {name: "{{ placement.name }}-{{ user }}"}
    - id: connection
      direction: ToSource
      resource: secrets.v1
      from: {name: "{{ placement.name }}-connection"}
      to: {name: "{{ source.metadata.name }}-access"}
      data: {include: [uri, host], rename: {host: server}, transform: {uri: "${{ value | upper }}"}}
      ownerReference: true
      onMissing: Skip
  objects:
    - id: db
      dependsOn: [related.passwords]
      template: {apiVersion: example.dev/v1, kind: Database, spec: {size: 1}}
"#;

pub fn related() -> Mapping {
    mapping(RELATED)
}

fn of(users: &[&str]) -> World {
    let mut source = source();
    source["spec"] = json!({"users": users});
    World::new(source)
}

fn secret(namespace: &str, name: &str, data: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {
            "namespace": namespace, "name": name,
            "labels": {"team": "a", "claimed.internal.apis.kcp.io/x": "y"}, "annotations": {"kcp.io/cluster": "abc"},
        },
        "data": data,
    })
}

pub fn password(name: &str) -> (Side, Value) {
    (Side::Source, secret("default", name, json!({"password": "cA=="})))
}

/// A namespace of the world's target.
fn place() -> String {
    let mut world = of(&[]);
    world.settle(&related());
    world.reference("Database").namespace
}

fn connection(data: Value) -> (Side, Value) {
    (Side::Target, secret(&place(), "db-connection", data))
}

fn beside(name: &str) -> Reference {
    let kind = Kind::new("", "v1", "Secret").on(Side::Source);
    Reference { kind, namespace: "default".into(), name: name.into() }
}

#[test]
fn a_copy_is_made_before_what_refers_to_it_and_holds_nothing_of_its_cluster() {
    let mut world = of(&["ann", "bob"]);
    world.originals = vec![password("ann")];
    let waiting = said(&world.settle(&related()));
    insta::assert_snapshot!(waiting, @"waiting: Waiting: related object `passwords[bob]`: secrets default/bob does not exist in the consumer's cluster; Waiting: related object `connection`: it is not read while Database default-r7udrysckmmlkpz2/db does not exist yet; Waiting: object `db`: waits for related object `passwords[bob]`: secrets default/bob does not exist in the consumer's cluster");
    world.take_log();
    world.originals.push(password("bob"));
    assert_eq!(world.settle(&related()), Rest::InSync);
    let log: Vec<_> = world.take_log().iter().map(|line| line.replace(&place(), "place")).collect();
    insta::assert_snapshot!(log.join("\n"), @"
    create Secret place/db-bob
    create Database place/db
    update status
    ");
    let copy = &world.objects[&Reference { name: "db-ann".into(), ..world.reference("Secret") }];
    assert_eq!((&copy["data"], &copy["type"]), (&json!({"password": "cA=="}), &json!("Opaque")));
    assert!(!copy.to_string().contains("kcp.io") && copy["metadata"]["labels"]["team"].is_null(), "{copy}");
}

#[test]
fn a_copy_follows_its_original_stays_without_it_and_goes_with_its_item() {
    let mut world = of(&["ann"]);
    world.originals = vec![password("ann")];
    assert_eq!(world.settle(&related()), Rest::InSync);
    world.originals[0].1["data"] = json!({"password": "bmV3"});
    assert_eq!(world.settle(&related()), Rest::InSync);
    assert_eq!(world.object("Secret")["data"], json!({"password": "bmV3"}));

    world.originals.clear();
    assert!(said(&world.settle(&related())).contains("secrets default/ann does not exist"));
    assert_eq!(world.object("Secret")["data"], json!({"password": "bmV3"}));
    world.edit_source(|source| source["spec"]["users"] = json!([]));
    assert_eq!(world.settle(&related()), Rest::InSync);
    assert_eq!(world.objects.len(), 1, "the Database alone");
}

/// What reads the copies names them, and the server refuses to change it.
#[test]
fn a_copy_goes_after_what_refers_to_it_was_written_without_it() {
    let reads =
        "spec: {users: \"{% for user in source.spec.users %}{{ related.passwords[user].to.name }} {% endfor %}\"}";
    let reads = mapping(&RELATED.replace("spec: {size: 1}", reads));
    let mut world = of(&["ann", "bob"]);
    world.originals = vec![password("ann"), password("bob")];
    assert_eq!(world.settle(&reads), Rest::InSync);
    world.edit_source(|source| source["spec"]["users"] = json!(["ann"]));
    world.take_log();
    let mut refused = world.clone();
    assert_eq!(world.settle(&reads), Rest::InSync);
    let log: Vec<_> = world.take_log().iter().map(|line| line.replace(&place(), "place")).collect();
    assert_eq!(log, ["update Database place/db", "delete Secret place/db-bob"]);

    refused.refuses = vec!["update Database".into()];
    let rest = said(&refused.settle(&reads));
    assert!(rest.contains("db-bob is deleted after Database"), "{rest}");
    assert_eq!(refused.objects.len(), 3, "the copy is still named");
}

/// A switch of the consumer's decides whether there is a copy.
#[test]
fn a_copy_whose_when_is_false_goes_after_what_refers_to_it() {
    let conditional = mapping(
        r#"  related:
    - id: tls
      when: ${{ source.spec.tls }}
      direction: ToTarget
      resource: secrets.v1
      from: {name: cert}
      to: {name: "{{ placement.name }}-cert"}
  objects:
    - id: db
      template:
        apiVersion: example.dev/v1
        kind: Database
        spec: {cert: "${{ related.tls.to.name | default(omit) }}"}
"#,
    );
    let mut world = of(&[]);
    world.originals = vec![password("cert")];
    world.edit_source(|source| source["spec"]["tls"] = json!(true));
    assert_eq!(world.settle(&conditional), Rest::InSync);
    assert_eq!(world.object("Database")["spec"], json!({"cert": "db-cert"}));
    world.edit_source(|source| source["spec"]["tls"] = json!("yes"));
    assert!(said(&world.settle(&conditional)).contains("expected true or false"));
    assert_eq!(world.object("Secret")["data"], json!({"password": "cA=="}), "nobody knows whether it is to go");
    world.edit_source(|source| source["spec"]["tls"] = json!(false));
    world.take_log();
    assert_eq!(world.settle(&conditional), Rest::InSync);
    let log: Vec<_> = world.take_log().iter().map(|line| line.replace(&place(), "place")).collect();
    assert_eq!(log, ["update Database place/db", "delete Secret place/db-cert", "update status"]);
    assert!(world.object("Database")["spec"].get("cert").is_none());
}

/// One Secret for the consumer: the password that the operator made, with what else it takes to connect.
#[test]
fn a_copy_has_keys_of_its_own() {
    let add = r#"      data:
        include: [password]
        add:
          host: "{{ objects.db.status.host }}:5432"
          uri: "db://admin:{{ related.connection.data.password | b64decode }}@{{ objects.db.status.host }}"
"#;
    let data = RELATED.lines().find(|line| line.contains("data: {include")).expect("its data").to_owned() + "\n";
    let added = mapping(&RELATED.replace(&data, add).replace("onMissing: Skip", "onMissing: Wait"));
    let mut world = of(&[]);
    world.originals = vec![connection(json!({"password": "aHVudGVy", "other": "eA=="}))];
    let rest = said(&world.settle(&added));
    assert!(rest.contains("the value of its key `host`: `objects.db.status`") && !rest.contains("hunter"), "{rest}");
    world.edit("Database", |object| object["status"] = json!({"host": "db.example"}));
    assert_eq!(world.settle(&added), Rest::InSync);
    let copy = &world.objects[&beside("db-access")];
    let text = |text: &str| data_encoding::BASE64.encode(text.as_bytes());
    let host = text("db.example:5432");
    let all = json!({"password": "aHVudGVy", "host": host, "uri": text("db://admin:hunter@db.example")});
    assert_eq!(copy["data"], all);
}

#[test]
fn one_missing_secret_holds_up_its_own_item_alone() {
    let each = "    - id: user
      forEach: ${{ source.spec.users | default([]) }}
      as: user
      key: ${{ user }}
      template:
        apiVersion: example.dev/v1
        kind: User
        metadata: {name: \"{{ placement.name }}-{{ user }}\"}
        spec: {password: \"{{ related.passwords[user].to.name }}\", size: \"${{ source.spec.size | default(1) }}\"}
";
    let users = mapping(&format!("{RELATED}{each}").replace("      dependsOn: [related.passwords]\n", ""));
    let mut world = of(&["ann", "bob", "joe"]);
    world.originals = vec![password("ann"), password("bob"), password("joe")];
    assert_eq!(world.settle(&users), Rest::InSync);
    world.originals.remove(1);
    world.edit_source(|source| source["spec"] = json!({"users": ["ann", "bob"], "size": 2}));
    let rest = said(&world.settle(&users));
    assert!(rest.contains("default/bob does not exist"), "{rest}");
    let sizes = world.objects.iter().filter(|(at, _)| at.kind.kind == "User");
    let sizes: Vec<_> = sizes.map(|(at, object)| (at.name.as_str(), object["spec"]["size"].clone())).collect();
    assert_eq!(sizes, [("db-ann", json!(2)), ("db-bob", json!(1))], "ann follows, joe goes, bob waits");
}

#[test]
fn one_name_that_is_none_holds_up_its_own_copy_alone() {
    let mut world = of(&["ann", "A n n"]);
    world.originals = vec![password("ann")];
    let rest = said(&world.settle(&related()));
    assert!(rest.contains("related object `passwords[A n n]`: `from`: the name is no name of an object"), "{rest}");
    assert_eq!(world.object("Secret")["data"], json!({"password": "cA=="}));
}

/// A database that somebody else made has the name that this source's would have.
#[test]
fn nothing_is_read_back_while_the_object_that_it_derives_from_is_foreign() {
    let tells = format!(
        "{RELATED}  status:\n    fields:\n      uri: {{value: \"${{{{ related.connection.data.uri | default('') }}}}\"}}\n"
    );
    for mapping in [related(), mapping(&tells)] {
        let mut world = of(&[]);
        world.originals = vec![connection(json!({"uri": "c2VjcmV0"}))];
        let at = {
            let mut other = of(&[]);
            other.settle(&mapping);
            other.reference("Database")
        };
        world.objects.insert(at, foreign());
        let rest = said(&world.settle(&mapping));
        assert!(rest.contains("Conflict: object `db`"), "{rest}");
        assert!(world.objects.keys().all(|one| one.kind.kind != "Secret"), "{:?}", world.objects.keys());
        assert!(!world.source.as_ref().unwrap()["status"].to_string().contains("c2VjcmV0"));
    }
}

/// Servers refuse to change the type of a Secret, and the data of one that is immutable.
#[test]
fn a_copy_that_cannot_be_changed_is_created_anew() {
    for change in [("type", json!("kubernetes.io/basic-auth")), ("data", json!({"password": "bmV3"}))] {
        let mut world = of(&["ann"]);
        world.originals = vec![password("ann")];
        world.settle(&related());
        world.edit("Secret", |copy| copy["immutable"] = json!(true));
        world.take_log();
        world.originals[0].1[change.0] = change.1.clone();
        assert_eq!(world.settle(&related()), Rest::InSync);
        let words: Vec<_> = world.take_log().iter().map(|line| line.split(' ').next().unwrap().to_owned()).collect();
        assert_eq!(words, ["delete", "create"], "{}", change.0);
        assert_eq!(world.object("Secret")[change.0], change.1);
    }
}

#[test]
fn a_copy_of_an_earlier_source_that_cannot_be_changed_is_created_anew() {
    let mut world = of(&["ann"]);
    world.originals = vec![password("ann")];
    world.settle(&related());
    world.take_log();
    world.edit_source(|source| source["metadata"]["uid"] = json!("source-2"));
    world.originals[0].1["type"] = json!("kubernetes.io/basic-auth");
    assert_eq!(world.settle(&related()), Rest::InSync);
    let secrets: Vec<_> = world.take_log().into_iter().filter(|line| line.contains(" Secret ")).collect();
    let words: Vec<_> = secrets.iter().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(words, ["delete", "create"]);
}

#[test]
fn what_is_never_copied_is_said() {
    let mut world = of(&["ann"]);
    let (side, mut token) = password("ann");
    token["type"] = json!("kubernetes.io/service-account-token");
    world.originals = vec![(side, token)];
    assert!(said(&world.settle(&related())).contains("token of a service account, which is never copied"));
    let mut odd = of(&["../x"]);
    assert!(said(&odd.settle(&related())).contains("the name is no name of an object"));
    let mut empty = of(&[""]);
    assert!(said(&empty.settle(&related())).contains("the key of item 1 is empty"));
    assert!(world.objects.is_empty() && odd.objects.is_empty() && empty.objects.is_empty());
}

#[test]
fn what_a_source_waits_for_stays_said_while_it_cannot_be_seen() {
    let mut world = of(&["ann", "bob"]);
    world.settle(&related());
    let message = condition(&world)["message"].clone();
    assert!(message.to_string().contains("default/ann"), "{message}");
    world.take_log();
    world.refuses = vec!["read secrets default/ann".into()];
    let waiting = said(&world.settle(&related()));
    assert!(waiting.contains("Unknown") && waiting.contains("default/bob"), "{waiting}");
    assert_eq!(condition(&world)["message"], message);
    assert!(!world.log.contains(&"update status".to_owned()), "{:?}", world.log);
}

#[test]
fn a_connection_comes_back_and_goes_with_the_source() {
    let mut world = of(&[]);
    world.originals = vec![connection(json!({"uri": "ZGI6Ly9h", "host": "aA==", "other": "eA=="}))];
    assert_eq!(world.settle(&related()), Rest::InSync);
    let copy = world.objects[&beside("db-access")].clone();
    assert_eq!(copy["data"], json!({"uri": "REI6Ly9B", "server": "aA=="}));
    assert_eq!(copy["metadata"]["ownerReferences"][0]["uid"], world.source.as_ref().unwrap()["metadata"]["uid"]);

    // Server-side apply does not work there: what goes is sent as null.
    world.originals[0].1["data"] = json!({"uri": "ZGI6Ly9i"});
    assert_eq!(world.settle(&related()), Rest::InSync);
    assert_eq!(world.objects[&beside("db-access")]["data"], json!({"uri": "REI6Ly9C"}));

    world.delete_source();
    world.settle(&related());
    assert_eq!((world.source.clone(), world.objects.len()), (None, 0));
}

#[test]
fn a_foreign_secret_is_a_conflict_on_both_sides() {
    let mut world = of(&["ann"]);
    world.originals = vec![password("ann"), connection(json!({"uri": "ZGI6Ly9h"}))];
    world.objects.insert(beside("db-access"), foreign());
    let on_target = Reference { kind: Kind::new("", "v1", "Secret"), namespace: place(), name: "db-ann".into() };
    world.objects.insert(on_target.clone(), foreign());
    let blocked = said(&world.settle(&related()));
    assert!(blocked.contains("Conflict: related object `passwords[ann]`"), "{blocked}");
    assert_eq!(world.objects.remove(&on_target), Some(foreign()));
    let blocked = said(&world.settle(&related()));
    assert!(blocked.contains("Conflict: related object `connection`"), "{blocked}");
    assert_eq!(world.objects[&beside("db-access")], foreign());
}

#[test]
fn a_claim_that_is_missing_or_taken_back_is_said_and_deletes_nothing() {
    let claimed = || -> Claims {
        let secrets = crate::mapping::Resource { group: String::new(), version: "v1".into(), plural: "secrets".into() };
        [(secrets, vec!["*".to_owned()])].into_iter().collect()
    };
    let mut world = of(&["ann"]);
    world.originals = vec![password("ann"), connection(json!({"uri": "ZGI6Ly9h"}))];
    world.claims = Some(Claims::default());
    let waiting = said(&world.settle(&related()));
    assert!(waiting.contains("ClaimNotAccepted") && waiting.contains("resource: secrets"), "{waiting}");
    assert!(world.objects.is_empty());
    // What needs no claim goes on.
    let mut other = World::new(source());
    other.claims = Some(Claims::default());
    other.settle(&mapping(super::DATABASES));
    assert!(!other.objects.is_empty());

    world.claims = Some(claimed());
    assert_eq!(world.settle(&related()), Rest::InSync);
    let before = world.objects.clone();
    world.claims = Some(Claims::default());
    assert!(said(&world.settle(&related())).contains("ClaimNotAccepted"));
    assert_eq!(world.objects, before);

    // A consumer who took it back can still leave; the copy beside the source is theirs.
    world.delete_source();
    world.settle(&related());
    assert_eq!(world.source, None);
    assert_eq!(world.objects.keys().collect::<Vec<_>>(), [&beside("db-access")]);
}

/// Two sources that name one Secret have one copy of it, under its own name.
#[test]
fn a_shared_copy_goes_with_the_last_source_that_names_it() {
    let text = RELATED.replace("      to: {name: \"{{ placement.name }}-{{ user }}\"}\n", "      shared: Namespace\n");
    assert_ne!(text, RELATED);
    let mapping = mapping(&text);
    for (in_use, left) in [(Some(true), 2), (Some(false), 1), (None, 2)] {
        let mut world = of(&["ann"]);
        world.originals = vec![password("ann")];
        assert_eq!(world.settle(&mapping), Rest::InSync);
        assert_eq!(world.reference("Secret").name, "ann");
        assert!(!world.object("Secret").to_string().contains("source-uid"), "it names no source");
        world.shared_in_use = in_use;
        world.edit_source(|source| source["spec"]["users"] = json!([]));
        assert_eq!((world.settle(&mapping), world.objects.len()), (Rest::InSync, left), "{in_use:?}");
    }
    for (in_use, left) in [(Some(true), 1), (Some(false), 0)] {
        let mut world = of(&["ann"]);
        world.originals = vec![password("ann")];
        world.settle(&mapping);
        world.shared_in_use = in_use;
        world.delete_source();
        world.settle(&mapping);
        assert_eq!((world.source.clone(), world.objects.len()), (None, left), "{in_use:?}");
    }
}

#[test]
fn copies_go_with_their_rule() {
    let mut world = of(&["ann"]);
    world.originals = vec![password("ann"), connection(json!({"uri": "ZGI6Ly9h"}))];
    world.settle(&related());
    assert_eq!(world.objects.len(), 3);
    let without = RELATED.split("  related:").next().unwrap().to_owned()
        + "  objects:\n    - {id: db, template: {apiVersion: example.dev/v1, kind: Database, spec: {size: 1}}}\n";
    world.prune = crate::plan::Prune::Held;
    assert!(said(&world.settle(&mapping(&without))).contains("Held"));
    assert_eq!(world.objects.len(), 3);
    world.prune = crate::plan::Prune::Allowed;
    assert_eq!((world.settle(&mapping(&without)), world.objects.len()), (Rest::InSync, 1));
}

/// An operator looks for a Secret when the spec names it, and backs off where it is missing.
#[test]
fn a_change_waits_for_the_copies_that_it_refers_to() {
    let text = RELATED.replace("spec: {size: 1}", "spec: {users: \"${{ source.spec.users }}\"}");
    let mapping = mapping(&text);
    let mut world = of(&["ann"]);
    world.originals = vec![password("ann")];
    assert_eq!(world.settle(&mapping), Rest::InSync);
    world.edit_source(|source| source["spec"]["users"] = json!(["ann", "bob"]));
    assert!(said(&world.settle(&mapping)).contains("waits for related object `passwords[bob]`"));
    assert_eq!(world.object("Database")["spec"]["users"], json!(["ann"]));
    // What vanished was copied before: it delays nothing.
    world.originals = vec![password("bob")];
    world.take_log();
    assert!(said(&world.settle(&mapping)).contains("default/ann does not exist"));
    assert_eq!(world.object("Database")["spec"]["users"], json!(["ann", "bob"]));
    let log: Vec<_> = world.take_log().iter().map(|line| line.replace(&place(), "place")).collect();
    assert_eq!(log[..2], ["create Secret place/db-bob", "update Database place/db"]);
}

/// A process whose watch lags behind would undo what another one did.
#[test]
fn a_copy_is_not_deleted_for_what_a_cache_alone_says() {
    let mut world = of(&["ann"]);
    world.originals = vec![password("ann")];
    world.settle(&related());
    let mut observed = world.observe(&related());
    let mut old = password("ann").1;
    old["type"] = json!("kubernetes.io/basic-auth");
    old["metadata"]["resourceVersion"] = json!("1");
    world.take_log();
    let before = world.objects.clone();
    let mut is_asked_for = false;
    for _ in 0..9 {
        let actions = match crate::plan::plan(&related(), &observed) {
            crate::plan::Plan::Act(actions) => actions,
            crate::plan::Plan::Last(action, _) => vec![*action],
            crate::plan::Plan::Rest(_) => break,
        };
        for action in actions {
            let outcome = match &action {
                crate::plan::Action::Read(original) if original.to_string().ends_with("/ann") => {
                    crate::plan::Outcome::Seen(Ok(vec![std::sync::Arc::new(old.clone())]))
                }
                action => {
                    is_asked_for |= matches!(action, crate::plan::Action::ReadAnew(_));
                    world.execute(action)
                }
            };
            observed.absorb(&action, outcome);
        }
    }
    assert!(
        is_asked_for,
        "the copy would have to be made anew, and that is asked for past the caches: {:?}",
        world.log
    );
    assert_eq!(world.objects, before);
}

/// A process that starts sees the original a moment later: nobody is told until then.
#[test]
fn what_is_read_back_is_uncertain_while_an_original_is_not_seen() {
    let mut world = of(&["ann"]);
    let mut observed = world.observe(&related());
    for _ in 0..9 {
        let actions = match crate::plan::plan(&related(), &observed) {
            crate::plan::Plan::Act(actions) => actions,
            crate::plan::Plan::Last(action, _) => vec![*action],
            crate::plan::Plan::Rest(rest) => {
                let said = said(&rest);
                assert!(said.contains("Unknown: related object `connection`") && !said.contains("Waiting:"), "{said}");
                assert_eq!(world.take_log(), Vec::<String>::new());
                return;
            }
        };
        for action in actions {
            let outcome = match &action {
                crate::plan::Action::Read(_) => crate::plan::Outcome::Failed(crate::plan::Failure {
                    kind: crate::plan::FailureKind::Unreachable,
                    why: "it is not listed yet".into(),
                }),
                action => world.execute(action),
            };
            observed.absorb(&action, outcome);
        }
    }
    panic!("the plan does not rest");
}

/// A watch that loses sight of Secrets shows them as deleted.
#[test]
fn a_selected_copy_goes_once_a_read_past_the_caches_says_so() {
    let each = RELATED.split("      forEach").next().unwrap().to_owned();
    let rest = RELATED.split_once("    - id: connection").unwrap().1;
    let text = format!("{each}      from: {{selector: {{matchLabels: {{team: a}}}}}}\n    - id: connection{rest}");
    let mapping = mapping(&text);
    let mut world = of(&[]);
    world.originals = vec![password("ann")];
    assert_eq!((world.settle(&mapping), world.reference("Secret").name.as_str()), (Rest::InSync, "ann"));
    world.take_log();
    let mut observed = world.observe(&mapping);
    let before = world.objects.clone();
    let mut is_asked_for = false;
    for _ in 0..9 {
        let crate::plan::Plan::Act(actions) = crate::plan::plan(&mapping, &observed) else { break };
        for action in actions {
            let outcome = match &action {
                crate::plan::Action::Read(_) => crate::plan::Outcome::Seen(Ok(Vec::new())),
                crate::plan::Action::ReadAnew(_) => {
                    is_asked_for = true;
                    crate::plan::Outcome::Failed(crate::plan::Failure {
                        kind: crate::plan::FailureKind::Refused,
                        why: "the claim is not accepted".into(),
                    })
                }
                action => world.execute(action),
            };
            observed.absorb(&action, outcome);
        }
    }
    assert!(is_asked_for, "{:?}", world.log);
    assert_eq!(world.objects, before);
    world.originals.clear();
    assert_eq!((world.settle(&mapping), world.objects.len()), (Rest::InSync, 1));
}

#[test]
fn a_shared_copy_goes_with_its_rule_unless_a_source_of_another_document_needs_it() {
    let shared =
        RELATED.replace("      to: {name: \"{{ placement.name }}-{{ user }}\"}\n", "      shared: Namespace\n");
    let without = RELATED.split("  related:").next().unwrap().to_owned()
        + "  objects:\n    - {id: db, template: {apiVersion: example.dev/v1, kind: Database, spec: {size: 1}}}\n";
    for (in_use, left) in [(Some(true), 2), (None, 2), (Some(false), 1)] {
        let mut world = of(&["ann"]);
        world.originals = vec![password("ann")];
        world.settle(&mapping(&shared));
        world.shared_in_use = in_use;
        assert_eq!((world.settle(&mapping(&without)), world.objects.len()), (Rest::InSync, left), "{in_use:?}");
    }
}

/// One namespace for all tenants: a name alone does not tell whose a Secret is.
const IN_ONE_NAMESPACE: &str = r#"  placement:
    namespace: databases
    name: "{{ source.metadata.name | dns_label(30) }}-{{ short_hash(workspace.cluster, source.metadata.namespace, source.metadata.name) }}"
  related:
    - id: chosen
      direction: ToSource
      resource: secrets.v1
      from: {name: "{{ source.spec.secretName }}"}
      to: {name: "{{ source.metadata.name }}-chosen"}
    - id: listed
      direction: ToSource
      resource: secrets.v1
      forEach: ${{ source.spec.secrets | default([]) }}
      as: name
      key: ${{ name }}
      from: {name: "{{ name }}"}
      to: {name: "{{ source.metadata.name }}-{{ name }}"}
      onMissing: Skip
    - id: labelled
      direction: ToSource
      resource: secrets.v1
      from: {selector: {matchLabels: {team: a}}}
  objects:
    - id: db
      template: {apiVersion: example.dev/v1, kind: Database, spec: {size: 1}}
"#;

#[test]
fn a_secret_of_another_tenant_in_the_same_namespace_is_not_read_back() {
    let mut world = of(&[]);
    world.edit_source(|source| source["spec"] = json!({"secretName": "password", "secrets": ["password"]}));
    world.originals = vec![(Side::Target, secret("databases", "password", json!({"password": "cA=="})))];
    let rest = said(&world.settle(&mapping(IN_ONE_NAMESPACE)));
    assert!(
        rest.contains("secrets databases/password does not exist on the target, or is not this source's own"),
        "{rest}"
    );
    assert_eq!(
        world.objects.keys().filter(|reference| reference.kind.kind == "Secret").count(),
        0,
        "{:?}",
        world.objects
    );
}

#[test]
fn a_secret_that_an_owned_object_owns_is_read_back() {
    let mut world = of(&[]);
    world.edit_source(|source| source["spec"] = json!({"secretName": "password", "secrets": ["password"]}));
    world.settle(&mapping(IN_ONE_NAMESPACE));
    let mut of_operator = secret("databases", "password", json!({"password": "cA=="}));
    let uid = world.object("Database")["metadata"]["uid"].clone();
    of_operator["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "example.dev/v1", "kind": "Database", "name": "db", "uid": uid}]);
    world.originals = vec![(Side::Target, of_operator)];
    assert_eq!(world.settle(&mapping(IN_ONE_NAMESPACE)), Rest::InSync);
    assert_eq!(world.objects[&beside("db-chosen")]["data"], json!({"password": "cA=="}));
    for copy in ["db-password", "password"] {
        assert!(world.objects.contains_key(&beside(copy)), "{copy}: {:?}", world.objects.keys());
    }
}
