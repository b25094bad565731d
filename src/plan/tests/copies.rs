//! Copies of related objects: planned as all objects are, and made before what refers to them.

use std::sync::Arc;

use serde_json::{Value, json};

use super::world::{World, check, check_by, foreign, planted, steps};
use super::{DATABASES, causes, edited, fresh, mapping, recreate, said};
use crate::mapping::{Kind, Mapping, Resource, Side};
use crate::object::claims::{Claims, READ};
use crate::object::marks::{self, Reference};
use crate::plan::{Action, Cause, Outcome, Prune, Reason};

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

/// The document without its related objects.
fn without_related() -> Mapping {
    mapping("  objects:\n    - {id: db, template: {apiVersion: example.dev/v1, kind: Database, spec: {size: 1}}}\n")
}

fn of(users: &[&str]) -> World {
    super::of(json!({"users": users}))
}

/// With a password of each.
pub fn with(users: &[&str]) -> World {
    of(users).with(|world| world.originals = users.iter().map(|user| password(user)).collect())
}

fn name(world: &mut World, users: &[&str]) {
    world.edit_source(|source| source["spec"]["users"] = json!(users));
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

fn password(name: &str) -> (Side, Value) {
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

/// The log since the last look, with short names of places.
fn log(world: &mut World) -> Vec<String> {
    let short = |line: &String| line.split(" of owner").next().unwrap_or_default().replace(&place(), "place");
    world.take_log().iter().map(short).collect()
}

/// Settles with answers that are not the servers': no object changes. Whether anything was read past the caches.
fn keeps_all(world: &mut World, mapping: &Mapping, answer: impl Fn(&Action) -> Option<Outcome>) -> bool {
    let (observed, before, mut is_read_anew) = (world.observe(mapping), world.objects.clone(), false);
    world.settle_from(mapping, observed, usize::MAX, |action| {
        is_read_anew |= matches!(action, Action::ReadAnew(_));
        answer(action)
    });
    assert_eq!(world.objects, before, "{:?}", world.log);
    is_read_anew
}

/// A process that starts has listed no original yet.
fn unlisted(action: &Action) -> Option<Outcome> {
    matches!(action, Action::Read(_)).then(|| Outcome::Seen(Err(Reason::unseen("it is not listed yet"))))
}

/// What is said and done, and the Secrets that stand.
fn tell(world: &mut World, mapping: &Mapping) -> String {
    let said = said(&world.settle(mapping));
    let secrets = world.objects.iter().filter(|(at, _)| at.kind.kind == "Secret");
    let secrets: Vec<_> = secrets.map(|(at, secret)| format!("{} {}", at.name, secret["data"])).collect();
    format!("{said}; {}; {}", log(world).join(", "), secrets.join(", ")).replace(&place(), "place")
}

#[test]
#[rustfmt::skip]
fn a_copy_is_made_before_what_refers_to_it_follows_its_original_and_goes_with_its_item() {
    let world = steps(with(&["ann"]).with(|world| name(world, &["ann", "bob"])), &[
        ("one original is missing", |_| {}, &related(),
            "waiting: Waiting: related object `passwords[bob]`: secrets default/bob does not exist in the consumer's cluster; Waiting: related object `connection`: it is not read while Database place/db does not exist yet; Waiting: object `db`: waits for related object `passwords[bob]`: secrets default/bob does not exist in the consumer's cluster; add finalizer, create Namespace place, create Secret place/db-ann, update status; db-ann {'password':'cA=='}"),
        ("all are there", |world| world.originals.push(password("bob")), &related(),
            "in sync; create Secret place/db-bob, create Database place/db, update status; db-ann {'password':'cA=='}, db-bob {'password':'cA=='}"),
    ], tell);
    let copy = &world.objects[&Reference { name: "db-ann".into(), ..world.reference("Secret") }];
    assert_eq!(copy["type"], "Opaque");
    let holds = copy.to_string();
    assert!(!holds.contains("kcp.io") && copy["metadata"]["labels"]["team"].is_null(), "nothing of its cluster: {holds}");
    let world = steps(with(&["ann"]).in_sync(&related()), &[
        ("its original changes", |world| world.originals[0].1["data"] = json!({"password": "bmV3"}), &related(),
            "in sync; update Secret place/db-ann; db-ann {'password':'bmV3'}"),
        ("its original is gone", |world| world.originals.clear(), &related(),
            "waiting: Waiting: related object `passwords[ann]`: secrets default/ann does not exist in the consumer's cluster; update status; db-ann {'password':'bmV3'}"),
        ("its item is gone", |world| name(world, &[]), &related(),
            "in sync; delete Secret place/db-ann, update status; "),
    ], tell);
    assert_eq!(world.objects.len(), 1, "the Database alone");
}

/// What reads the copies names them, and the server refuses to change it.
#[test]
#[rustfmt::skip]
fn a_copy_goes_after_what_refers_to_it_was_written_without_it() {
    let reads = "spec: {users: \"{% for user in source.spec.users %}{{ related.passwords[user].to.name }} {% endfor %}\"}";
    let reads = edited(RELATED, &[("spec: {size: 1}", reads)]);
    steps(with(&["ann", "bob"]).in_sync(&reads), &[
        ("the item is gone, and its reader is not written", |world| { name(world, &["ann"]); world.refuses = vec!["update Database".into()]; }, &reads,
            "blocked: Waiting: related object `passwords[bob]`: Secret place/db-bob is deleted after Database place/db was written without it; Refused: object `db`: Database place/db: refused by admission; update Database place/db, update status; db-ann {'password':'cA=='}, db-bob {'password':'cA=='}"),
        ("its reader is written", |world| world.refuses.clear(), &reads,
            "in sync; update Database place/db, delete Secret place/db-bob, update status; db-ann {'password':'cA=='}"),
    ], tell);
}

/// A switch of the consumer's decides whether there is a copy.
#[test]
#[rustfmt::skip]
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
    fn set(world: &mut World, tls: Value) {
        world.edit_source(|source| source["spec"] = json!({"tls": tls}));
    }
    let world = steps(with(&["cert"]), &[
        ("true", |world| set(world, json!(true)), &conditional,
            "in sync; add finalizer, create Namespace place, create Secret place/db-cert, create Database place/db, update status; db-cert {'password':'cA=='}; {'cert':'db-cert'}"),
        ("nobody knows", |world| set(world, json!("yes")), &conditional,
            "blocked: RenderFailed: related object `tls`: `source.spec.tls` must be true or false, and is a string; Waiting: object `db`: related object `tls` (read at `spec.cert`); update status; db-cert {'password':'cA=='}; {'cert':'db-cert'}"),
        ("false", |world| set(world, json!(false)), &conditional,
            "in sync; update Database place/db, delete Secret place/db-cert, update status; ; {}"),
    ], |world, mapping| format!("{}; {}", tell(world, mapping), world.object("Database")["spec"]));
    assert_eq!(world.objects.len(), 1, "the Database alone");
}

/// As one object is, whose `when` is false.
#[test]
fn several_related_objects_are_absent_where_their_when_is_false() {
    let conditional = mapping(
        r#"  related:
    - id: certs
      when: ${{ source.spec.tls }}
      direction: ToTarget
      resource: secrets.v1
      forEach: [cert]
      as: name
      key: ${{ name }}
      from: {name: "{{ name }}"}
      to: {name: "{{ placement.name }}-{{ name }}"}
  objects:
    - id: db
      template:
        apiVersion: example.dev/v1
        kind: Database
        spec: {tls: "${{ related.certs is defined }}", certs: "${{ related.certs | length if related.certs is defined else omit }}"}
"#,
    );
    let mut world = with(&["cert"]);
    for (tls, spec) in [(true, json!({"tls": true, "certs": 1})), (false, json!({"tls": false}))] {
        world.edit_source(|source| source["spec"] = json!({"tls": tls}));
        world.sync(&conditional);
        assert_eq!(world.object("Database")["spec"], spec);
    }
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
    let added = edited(RELATED, &[(&data, add), ("onMissing: Skip", "onMissing: Wait")]);
    let mut world = of(&[]);
    world.originals = vec![connection(json!({"password": "aHVudGVy", "other": "eA=="}))];
    let rest = said(&world.settle(&added));
    assert!(rest.contains("the value of its key `host`: `objects.db.status`") && !rest.contains("hunter"), "{rest}");
    world.edit("Database", |object| object["status"] = json!({"host": "db.example"}));
    world.sync(&added);
    let copy = &world.objects[&beside("db-access")];
    let text = |text: &str| data_encoding::BASE64.encode(text.as_bytes());
    let host = text("db.example:5432");
    let all = json!({"password": "aHVudGVy", "host": host, "uri": text("db://admin:hunter@db.example")});
    assert_eq!(copy["data"], all);
}

/// Also where a template copies all labels of an original.
#[test]
fn labels_of_kcp_stay_in_its_cluster() {
    let labels = r#"kind: Database, metadata: {labels: "${{ related.passwords['ann'].metadata.labels }}"}, "#;
    let world = with(&["ann"]).in_sync(&edited(RELATED, &[("kind: Database, ", labels)]));
    let copied = &world.object("Database")["metadata"]["labels"];
    assert!(copied["team"] == "a" && copied.get("claimed.internal.apis.kcp.io/x").is_none(), "{copied}");
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
    let mut world = with(&["ann", "bob", "joe"]).in_sync(&users);
    world.originals.remove(1);
    world.edit_source(|source| source["spec"] = json!({"users": ["ann", "bob"], "size": 2}));
    let rest = said(&world.settle(&users));
    assert!(rest.contains("default/bob does not exist"), "{rest}");
    let sizes = world.objects.iter().filter(|(at, _)| at.kind.kind == "User");
    let sizes: Vec<_> = sizes.map(|(at, object)| (at.name.as_str(), object["spec"]["size"].clone())).collect();
    assert_eq!(sizes, [("db-ann", json!(2)), ("db-bob", json!(1))], "ann follows, joe goes, bob waits");
}

/// An object for each original.
const USERS: &str = r#"    - id: user
      forEach: ${{ related.passwords | items }}
      as: pair
      key: ${{ pair[0] }}
      template:
        apiVersion: example.dev/v1
        kind: User
        metadata: {name: "{{ placement.name }}-{{ pair[0] }}"}
        spec: {size: 1}
"#;

/// The read of one may be refused for longer.
#[test]
fn what_is_made_of_each_original_stays_while_one_is_out_of_sight_or_missing() {
    let users = mapping(&format!("{RELATED}{USERS}"));
    let mut world = with(&["ann", "bob"]).in_sync(&users);
    let before = world.objects.clone();
    assert_eq!(before.len(), 5, "two copies, two users and the Database");
    keeps_all(&mut world, &users, |action| unlisted(action).filter(|_| action.to_string().ends_with("/bob")));
    assert_eq!(world.take_log(), Vec::<String>::new(), "nobody is told");
    world.originals.remove(1);
    let rest = said(&world.settle(&users));
    assert!(rest.contains("Waiting: object `user`: related object `passwords`"), "{rest}");
    assert_eq!(world.objects, before, "{:?}", world.log);
    name(&mut world, &["ann"]);
    world.sync(&users);
    assert_eq!(world.objects.len(), 3);
}

/// A process that starts, and one whose watch has failed: what the consumer was told before stays.
#[test]
fn a_status_that_reads_related_objects_stays_while_they_are_out_of_sight() {
    let status = "  status:
    fields:
      uri: {value: \"${{ related.connection.data.uri | default(omit) }}\"}
      of: {value: \"${{ related.passwords['ann'].to.name | default(omit) }}\"}
      users: {value: \"${{ related.passwords | length }}\"}
";
    let tells = mapping(&format!("{RELATED}{status}"));
    let mut world = with(&["ann"]);
    world.originals.push(connection(json!({"uri": "ZGI6Ly9h"})));
    let mut world = world.in_sync(&tells);
    let told = [&world.status()["uri"], &world.status()["of"], &world.status()["users"]].map(Value::to_string);
    assert_eq!(told.join(" "), r#""ZGI6Ly9h" "db-ann" 1"#);
    let before = world.source.clone();
    keeps_all(&mut world, &tells, unlisted);
    assert_eq!((world.take_log(), world.source), (Vec::new(), before));
}

/// A watch that loses sight of objects shows them as deleted.
#[test]
fn a_status_that_reads_a_selection_is_written_once_a_read_past_the_caches_says_so() {
    let tells = mapping(
        "  related:
    - {id: fronts, direction: ToTarget, resource: services.v1, from: {selector: {matchLabels: {team: a}}}}
  vars:
    fronts: ${{ related.fronts | length }}
  objects:
    - {id: db, template: {apiVersion: example.dev/v1, kind: Database, spec: {size: 1}}}
  status:
    fields:
      fronts: {value: \"${{ vars.fronts }}\"}
",
    );
    let metadata = json!({"namespace": "default", "name": "front", "labels": {"team": "a"}});
    let front = json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata});
    let mut world = fresh().with(|world| world.originals.push((Side::Source, front))).in_sync(&tells);
    assert_eq!(world.status()["fronts"], json!(1));
    let before = world.source.clone();
    keeps_all(&mut world, &tells, out_of_sight);
    assert_eq!(world.source, before, "{:?}", world.log);
    world.originals.clear();
    world.sync(&tells);
    assert_eq!(world.status()["fronts"], json!(0));
}

/// Nothing but the consumer's own word brings it into sight.
#[test]
fn a_claim_that_a_status_alone_needs_is_said() {
    let tells = mapping(
        "  related:
    - {id: front, direction: ToTarget, resource: services.v1, from: {name: front}}
  objects:
    - {id: db, template: {apiVersion: example.dev/v1, kind: Database, spec: {size: 1}}}
  status:
    fields:
      port: {value: \"${{ related.front.spec.port | default(omit) }}\"}
",
    );
    let mut world = fresh().with(|world| world.seen.consumer.claims = Some(Claims::default()));
    let rest = said(&world.settle(&tells));
    assert!(rest.contains("ClaimNotAccepted: status.port: "), "{rest}");
}

/// A connection is not read back while somebody else's Database has the name that this source's would have.
#[test]
#[rustfmt::skip]
fn what_stands_in_the_way_of_a_copy_is_said() {
    let tells = "  objects:\n    - id: db\n";
    let tells = edited(RELATED, &[(tells, &format!("  status:\n    fields:\n      uri: {{value: \"${{{{ related.connection.data.uri | default('') }}}}\"}}\n{tells}"))]);
    fn foreign_database(world: &mut World) {
        let at = world.clone().in_sync(&related()).reference("Database");
        world.objects.insert(at, foreign());
        world.originals.push(connection(json!({"uri": "c2VjcmV0"})));
    }
    fn foreign_secret(world: &mut World, at: Reference) {
        world.objects.insert(at, foreign());
        world.originals.push(connection(json!({"uri": "ZGI6Ly9h"})));
    }
    check_by(|| with(&["ann"]), &[
        ("one name that is none holds up its own copy alone", |world| name(world, &["ann", "A n n"]), &related(),
            "blocked: RenderFailed: related object `passwords[A n n]`: `from`: the name is no name of an object; Waiting: related object `connection`: it is not read while Database place/db does not exist yet; RenderFailed: object `db`: waits for related object `passwords[A n n]`: `from`: the name is no name of an object; add finalizer, create Namespace place, create Secret place/db-ann, update status; db-ann {'password':'cA=='}"),
        ("a path", |world| name(world, &["../x"]), &related(),
            "blocked: RenderFailed: related object `passwords[../x]`: `from`: the name is no name of an object; Waiting: related object `connection`: it is not read while Database place/db does not exist yet; RenderFailed: object `db`: waits for related object `passwords[../x]`: `from`: the name is no name of an object; update status; "),
        ("an empty key", |world| name(world, &[""]), &related(),
            "blocked: RenderFailed: related object `passwords`: forEach: the key of item 1 is empty, longer than 253 bytes, or has line breaks; Waiting: related object `connection`: it is not read while Database place/db does not exist yet; RenderFailed: object `db`: waits for related object `passwords`: forEach: the key of item 1 is empty, longer than 253 bytes, or has line breaks; update status; "),
        ("a token of a service account", |world| world.originals[0].1["type"] = json!("kubernetes.io/service-account-token"), &related(),
            "blocked: RenderFailed: related object `passwords[ann]`: it is the token of a service account, which is never copied; Waiting: related object `connection`: it is not read while Database place/db does not exist yet; Waiting: object `db`: waits for related object `passwords[ann]`: its copy does not exist yet; update status; "),
        ("a foreign database", foreign_database, &related(),
            "blocked: Conflict: related object `connection`: it is not read while Database place/db does not belong to this source; Conflict: object `db`: Database place/db exists and does not belong to this source: the engine does not modify it; remove or rename it, or set `adopt: IfUnowned` to take it over; add finalizer, create Namespace place, create Secret place/db-ann, create Database place/db, update status; db-ann {'password':'cA=='}"),
        ("a foreign database, and the status tells of the connection", foreign_database, &tells,
            "blocked: Conflict: related object `connection`: it is not read while Database place/db does not belong to this source; Conflict: object `db`: Database place/db exists and does not belong to this source: the engine does not modify it; remove or rename it, or set `adopt: IfUnowned` to take it over; add finalizer, create Namespace place, create Secret place/db-ann, create Database place/db, update status; db-ann {'password':'cA=='}"),
        ("a foreign Secret on the target", |world| foreign_secret(world, Reference { kind: Kind::new("", "v1", "Secret"), namespace: place(), name: "db-ann".into() }), &related(),
            "blocked: Conflict: related object `passwords[ann]`: Secret place/db-ann exists and does not belong to this source: the engine does not modify it; remove or rename it, or set `adopt: IfUnowned` to take it over; Waiting: related object `connection`: it is not read while Database place/db does not exist yet; Waiting: object `db`: waits for related object `passwords[ann]`: its copy does not exist yet; add finalizer, create Namespace place, create Secret place/db-ann, update status; db-ann null"),
        ("a foreign Secret beside the source", |world| foreign_secret(world, beside("db-access")), &related(),
            "blocked: Conflict: related object `connection`: Secret default/db-access in the consumer's cluster exists and does not belong to this source: the engine does not modify it; remove or rename it, or set `adopt: IfUnowned` to take it over; add finalizer, create Namespace place, create Secret place/db-ann, create Database place/db, create Secret default/db-access in the consumer's cluster, update status; db-ann {'password':'cA=='}, db-access null"),
    ], |world, mapping| {
        let told = tell(world, mapping);
        assert!(!world.status().to_string().contains("c2VjcmV0"), "{}", world.status());
        told
    });
}

/// Servers refuse to change the type of a Secret, and the data of one that is immutable.
#[test]
fn a_copy_that_cannot_be_changed_is_created_anew() {
    for change in [("type", json!("kubernetes.io/basic-auth")), ("data", json!({"password": "bmV3"}))] {
        for uid in ["source-1", "source-2"] {
            let mut world = with(&["ann"]).in_sync(&related());
            world.edit("Secret", |copy| copy["immutable"] = json!(true));
            world.edit_source(|source| source["metadata"]["uid"] = json!(uid));
            world.originals[0].1[change.0] = change.1.clone();
            world.sync(&related());
            let of_copy: Vec<_> = world.writes().into_iter().filter(|line| line.ends_with(" Secret")).collect();
            assert_eq!(of_copy, ["delete Secret", "create Secret"], "{}, {uid}", change.0);
            assert_eq!(world.object("Secret")[change.0], change.1);
        }
    }
}

#[test]
fn what_a_source_waits_for_stays_said_while_it_cannot_be_seen() {
    let mut world = of(&["ann", "bob"]);
    world.settle(&related());
    let message = world.message();
    assert!(message.contains("default/ann"), "{message}");
    world.take_log();
    world.refuses = vec!["read secrets default/ann".into()];
    let waiting = said(&world.settle(&related()));
    assert!(waiting.contains("Unknown") && waiting.contains("default/bob"), "{waiting}");
    assert_eq!((world.message(), world.writes()), (message, vec!["read secrets".to_owned()]));
}

/// Server-side apply does not work beside a source: what goes is sent as null.
#[test]
#[rustfmt::skip]
fn a_connection_comes_back_and_goes_with_the_source() {
    let mut world = of(&[]);
    world.originals = vec![connection(json!({"uri": "ZGI6Ly9h", "host": "aA==", "other": "eA=="}))];
    let made = world.clone().in_sync(&related());
    assert_eq!(made.objects[&beside("db-access")]["metadata"]["ownerReferences"][0]["uid"], "source-1");
    steps(world, &[
        ("made", |_| {}, &related(),
            "in sync; add finalizer, create Namespace place, create Database place/db, create Secret default/db-access in the consumer's cluster, update status; db-access {'server':'aA==','uri':'REI6Ly9B'}"),
        ("a key is gone", |world| world.originals[0].1["data"] = json!({"uri": "ZGI6Ly9i"}), &related(),
            "in sync; update Secret default/db-access in the consumer's cluster; db-access {'uri':'REI6Ly9C'}"),
        ("its source is deleted", World::delete_source, &related(),
            "in sync; delete Secret default/db-access in the consumer's cluster, delete Database place/db, list all objects, release finalizer; "),
    ], tell);
    let hold = |world: &mut World| {
        let copy = world.objects.get_mut(&beside("db-access")).expect("it was made");
        copy["metadata"]["finalizers"] = json!(["tenant.dev/hold"]);
        world.delete_source();
    };
    steps(made, &[
        ("its source is deleted, and its consumer holds the copy", hold, &related(),
            "in sync; delete Secret default/db-access in the consumer's cluster, delete Database place/db, list all objects, release finalizer; db-access {'server':'aA==','uri':'REI6Ly9B'}"),
    ], tell);
}

/// The rights that `rbac` prints for it are to read. What it would write is told.
#[test]
fn a_mapping_that_observes_needs_no_claim_to_write() {
    let secrets = || Resource { group: String::new(), version: "v1".into(), plural: "secrets".into() };
    let verbs = || READ.iter().map(|verb| (*verb).to_owned()).collect::<Vec<_>>();
    for (is_read_alone, then) in [(true, "in sync"), (false, "ClaimNotAccepted")] {
        let mut world = with(&["ann"]);
        world.originals.push(connection(json!({"uri": "ZGI6Ly9h"})));
        world.seen.consumer.claims = Some([(secrets(), verbs())].into_iter().collect());
        world.seen.consumer.is_read_alone = is_read_alone;
        let rest = causes(&world.settle(&related()));
        assert_eq!(rest, then, "{is_read_alone}");
        let writes = world.take_log().join("\n");
        assert_eq!(
            writes.contains("create Secret default/db-access in the consumer's cluster"),
            is_read_alone,
            "{writes}"
        );
    }
}

#[test]
#[rustfmt::skip]
fn a_claim_that_is_missing_or_taken_back_is_said_and_deletes_nothing() {
    fn claimed() -> Claims {
        let secrets = Resource { group: String::new(), version: "v1".into(), plural: "secrets".into() };
        [(secrets, vec!["*".to_owned()])].into_iter().collect()
    }
    fresh().with(|other| other.seen.consumer.claims = Some(Claims::default())).sync(&mapping(DATABASES));
    let mut world = with(&["ann"]);
    world.originals.push(connection(json!({"uri": "ZGI6Ly9h"})));
    fn claim(world: &mut World, accepted: Claims) {
        world.seen.consumer.claims = Some(accepted);
    }
    let world = steps(world, &[
        ("not accepted", |world| claim(world, Claims::default()), &related(),
            "waiting: ClaimNotAccepted: related object `passwords[ann]`: the workspace has not accepted the permission claim for secrets with the verbs get, list, watch, create, patch, delete. Add to `spec.permissionClaims` of its APIBinding: {group: '', resource: secrets, verbs: [get, list, watch, create, patch, delete], state: Accepted, selector: {matchAll: true}}; Waiting: related object `connection`: it is not read while Database place/db does not exist yet; ClaimNotAccepted: object `db`: waits for related object `passwords[ann]`: the workspace has not accepted the permission claim for secrets with the verbs get, list, watch, create, patch, delete. Add to `spec.permissionClaims` of its APIBinding: {group: '', resource: secrets, verbs: [get, list, watch, create, patch, delete], state: Accepted, selector: {matchAll: true}}; update status; "),
        ("accepted", |world| claim(world, claimed()), &related(),
            "in sync; add finalizer, create Namespace place, create Secret place/db-ann, create Database place/db, create Secret default/db-access in the consumer's cluster, update status; db-ann {'password':'cA=='}, db-access {'uri':'REI6Ly9B'}"),
        ("taken back", |world| claim(world, Claims::default()), &related(),
            "waiting: ClaimNotAccepted: related object `passwords[ann]`: the workspace has not accepted the permission claim for secrets with the verbs get, list, watch, create, patch, delete. Add to `spec.permissionClaims` of its APIBinding: {group: '', resource: secrets, verbs: [get, list, watch, create, patch, delete], state: Accepted, selector: {matchAll: true}}; ClaimNotAccepted: related object `connection`: the workspace has not accepted the permission claim for secrets with the verbs get, list, watch, create, patch, delete. Add to `spec.permissionClaims` of its APIBinding: {group: '', resource: secrets, verbs: [get, list, watch, create, patch, delete], state: Accepted, selector: {matchAll: true}}; update status; db-ann {'password':'cA=='}, db-access {'uri':'REI6Ly9B'}"),
        ("taken back, and the source is deleted: the copy beside it is the consumer's", World::delete_source, &related(),
            "in sync; delete Database place/db, delete Secret place/db-ann, list all objects, release finalizer; db-access {'uri':'REI6Ly9B'}"),
    ], tell);
    assert_eq!((world.source, world.objects.len()), (None, 1));
}

/// Two sources that name one Secret have one copy of it, under its own name.
#[test]
#[rustfmt::skip]
fn a_shared_copy_goes_with_the_last_source_that_names_it() {
    fn shared() -> Mapping {
        edited(RELATED, &[("      to: {name: \"{{ placement.name }}-{{ user }}\"}\n", "      shared: Namespace\n")])
    }
    let start = || with(&["ann"]).in_sync(&shared());
    assert_eq!(start().reference("Secret").name, "ann");
    assert!(!start().object("Secret").to_string().contains("source-uid"), "it names no source");
    let (shared, without) = (shared(), without_related());
    check(start, &[
        ("no longer named, and another source names it", |world| { name(world, &[]); world.shared_in_use = Some(true); }, &shared,
            "in sync; held, True Synced; ; Secret Database"),
        ("no longer named, and it is not known who names it", |world| { name(world, &[]); world.shared_in_use = None; }, &shared,
            "Unknown; held, True Synced; ; Secret Database"),
        ("no longer named", |world| name(world, &[]), &shared,
            "in sync; held, True Synced; delete Secret; Database"),
        ("deleted, and another source names it", |world| { world.delete_source(); world.shared_in_use = Some(true); }, &shared,
            "in sync; gone; delete Database, list all, release finalizer; Secret"),
        ("deleted", World::delete_source, &shared,
            "in sync; gone; delete Database, delete Secret, list all, release finalizer; "),
        ("without its rule, and a source of another document needs it", |world| world.shared_in_use = Some(true), &without,
            "in sync; held, True Synced; ; Secret Database"),
        ("without its rule, and it is not known who needs it", |world| world.shared_in_use = None, &without,
            "Unknown; held, True Synced; ; Secret Database"),
        ("without its rule", |_| {}, &without,
            "in sync; held, True Synced; delete Secret; Database"),
    ]);
}

#[test]
#[rustfmt::skip]
fn copies_go_with_their_rule() {
    let start = || {
        let mut world = with(&["ann"]);
        world.originals.push(connection(json!({"uri": "ZGI6Ly9h"})));
        world.in_sync(&related())
    };
    check(start, &[
        ("held", |world| world.seen.limits.prune = Prune::none(), &without_related(),
            "Held; held, False Held; update status; Secret Database Secret"),
        ("gone", |_| {}, &without_related(),
            "in sync; held, True Synced; delete Secret, delete Secret; Database"),
    ]);
}

/// An operator looks for a Secret when the spec names it, and backs off where it is missing.
#[test]
#[rustfmt::skip]
fn a_change_waits_for_the_copies_that_it_refers_to() {
    let mapping = edited(RELATED, &[("spec: {size: 1}", "spec: {users: \"${{ source.spec.users }}\"}")]);
    steps(with(&["ann"]).in_sync(&mapping), &[
        ("bob is named, and has no password", |world| name(world, &["ann", "bob"]), &mapping,
            "waiting: Waiting: related object `passwords[bob]`: secrets default/bob does not exist in the consumer's cluster; Waiting: object `db`: waits for related object `passwords[bob]`: secrets default/bob does not exist in the consumer's cluster; update status; db-ann {'password':'cA=='}; {'users':['ann']}"),
        ("bob has a password, and that of ann, which was copied before, is gone", |world| world.originals = vec![password("bob")], &mapping,
            "waiting: Waiting: related object `passwords[ann]`: secrets default/ann does not exist in the consumer's cluster; create Secret place/db-bob, update Database place/db, update status; db-ann {'password':'cA=='}, db-bob {'password':'cA=='}; {'users':['ann','bob']}"),
    ], |world, mapping| format!("{}; {}", tell(world, mapping), world.object("Database")["spec"]));
}

/// Without the claim, the copies stay those of the source before.
#[test]
fn a_change_goes_on_beside_the_copies_of_an_earlier_source() {
    let mut world = with(&["ann"]).in_sync(&related());
    recreate(&mut world);
    world.seen.consumer.claims = Some(Claims::default());
    for (mapping, size) in [(related(), 1), (edited(RELATED, &[("size: 1", "size: 2")]), 2)] {
        let said = said(&world.settle(&mapping));
        assert!(said.contains("ClaimNotAccepted: related object `passwords[ann]`"), "{said}");
        assert_eq!(world.object("Database")["spec"]["size"], size, "{said}");
    }
    let sources = ["Database", "Secret"].map(|kind| marks::annotation(world.object(kind), marks::SOURCE_UID));
    assert_eq!(sources, [Some("source-2"), Some("source-1")]);
}

/// It would be made while the copy of the source before is deleted.
#[test]
fn what_refers_to_a_copy_is_made_after_that_of_its_own_source() {
    let replace = edited(RELATED, &[("  objects:\n", "  lifecycle: {onSourceRecreated: Replace}\n  objects:\n")]);
    let mut world = with(&["ann"]).in_sync(&replace);
    recreate(&mut world);
    world.sync(&replace);
    assert_eq!(world.writes()[..4], ["delete Database", "delete Secret", "create Secret", "create Database"]);
}

/// A process whose watch lags behind would undo what another one did.
#[test]
fn a_copy_is_not_deleted_for_what_a_cache_alone_says() {
    let mut world = with(&["ann"]).in_sync(&related());
    let mut old = password("ann").1;
    old["type"] = json!("kubernetes.io/basic-auth");
    old["metadata"]["resourceVersion"] = json!("1");
    let is_read_anew = keeps_all(&mut world, &related(), |action| {
        let is_cached = matches!(action, Action::Read(original) if original.to_string().ends_with("/ann"));
        is_cached.then(|| Outcome::Seen(Ok(vec![Arc::new(old.clone())])))
    });
    assert!(is_read_anew, "the copy would have to be made anew, which is asked for past the caches: {:?}", world.log);
}

/// A process that starts sees the original a moment later: nobody is told until then.
#[test]
fn what_is_read_back_is_uncertain_while_an_original_is_not_seen() {
    let mut world = of(&["ann"]);
    let observed = world.observe(&related());
    let said = said(&world.settle_from(&related(), observed, usize::MAX, unlisted).expect("no limit of writes"));
    assert!(said.contains("Unknown: related object `connection`") && !said.contains("Waiting:"), "{said}");
    assert_eq!(world.take_log(), Vec::<String>::new());
}

/// A password for each Secret with a label.
fn selecting() -> String {
    let (head, _) = RELATED.split_once("      forEach").expect("the first rule");
    let (_, rest) = RELATED.split_once("    - id: connection").expect("the second rule");
    format!("{head}      from: {{selector: {{matchLabels: {{team: a}}}}}}\n    - id: connection{rest}")
}

/// A watch that loses sight of Secrets shows them as deleted, and a read past the caches is refused.
fn out_of_sight(action: &Action) -> Option<Outcome> {
    let refused = || Reason { cause: Cause::Refused, detail: "the claim is not accepted".into() };
    match action {
        Action::Read(_) => Some(Outcome::Seen(Ok(Vec::new()))),
        Action::ReadAnew(_) => Some(Outcome::Failed(refused())),
        _ => None,
    }
}

#[test]
fn a_selected_copy_and_what_is_made_of_it_go_once_a_read_past_the_caches_says_so() {
    let mapping = mapping(&(selecting() + USERS));
    let mut world = with(&["ann"]);
    name(&mut world, &[]);
    world.sync(&mapping);
    assert_eq!([world.reference("Secret").name, world.reference("User").name], ["ann", "db-ann"]);
    assert!(keeps_all(&mut world, &mapping, out_of_sight), "{:?}", world.log);
    world.originals.clear();
    world.sync(&mapping);
    assert_eq!(world.objects.len(), 1);
}

#[test]
fn an_object_that_reads_a_selection_is_written_once_a_read_past_the_caches_says_so() {
    let reads = edited(&selecting(), &[("spec: {size: 1}", "spec: {users: \"${{ related.passwords | length }}\"}")]);
    let mut world = with(&["ann"]).in_sync(&reads);
    assert_eq!(world.object("Database")["spec"], json!({"users": 1}));
    keeps_all(&mut world, &reads, out_of_sight);
    world.originals.clear();
    world.sync(&reads);
    assert_eq!(world.object("Database")["spec"], json!({"users": 0}));
}

/// As of a list: a consumer gives labels to as many objects as they like, and each plan reads all of them.
#[test]
fn more_selected_objects_than_a_list_may_have_are_no_flood_of_copies() {
    let mapping = mapping(&selecting());
    let mut world = with(&["ann"]);
    name(&mut world, &[]);
    world.sync(&mapping);
    let before = world.objects.clone();
    world.originals = (0..1001).map(|number| password(&format!("n{number}"))).collect();
    let said = said(&world.settle(&mapping));
    assert!(said.contains("RenderFailed: related object `passwords`: it selects 1001 objects"), "{said}");
    assert_eq!(world.objects, before);
    world.originals.truncate(3);
    world.sync(&mapping);
    assert_eq!(world.objects.iter().filter(|(at, _)| at.kind.kind == "Secret").count(), 3);
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
#[rustfmt::skip]
fn a_secret_is_read_back_where_an_object_of_the_source_owns_it_and_not_where_it_may_be_another_tenants() {
    fn own(world: &mut World) {
        let uid = world.object("Database")["metadata"]["uid"].clone();
        let owner = |uid: Value| json!({"apiVersion": "example.dev/v1", "kind": "Database", "name": "db", "uid": uid});
        let others = (0..1_000).map(|number| json!(format!("other-{number}")));
        let owners: Value = others.chain([uid]).map(owner).collect();
        world.originals[0].1["metadata"]["ownerReferences"] = owners;
    }
    let mut world = of(&[]);
    world.edit_source(|source| source["spec"] = json!({"secretName": "password", "secrets": ["password"]}));
    world.originals = vec![(Side::Target, secret("databases", "password", json!({"password": "cA=="})))];
    steps(world, &[
        ("of somebody", |_| {}, &mapping(IN_ONE_NAMESPACE),
            "waiting: Waiting: related object `chosen`: secrets databases/password does not exist on the target, or is not this source's own; add finalizer, create Namespace databases, create Database databases/db-3m4xmurapsacz2fe, update status; "),
        ("of an object of the source", own, &mapping(IN_ONE_NAMESPACE),
            "in sync; create Secret default/db-chosen in the consumer's cluster, create Secret default/db-password in the consumer's cluster, create Secret default/password in the consumer's cluster, update status; db-chosen {'password':'cA=='}, db-password {'password':'cA=='}, password {'password':'cA=='}"),
    ], tell);
}

/// The namespace of the consumer has the name of the target's.
#[test]
fn an_object_beside_the_source_makes_nothing_on_the_target_readable() {
    let one_namespace = mapping(&IN_ONE_NAMESPACE.replace("namespace: databases", "namespace: default"));
    let mut world = of(&[]);
    world.edit_source(|source| source["spec"] = json!({"secretName": "password"}));
    world.originals = vec![(Side::Target, secret("default", "password", json!({"password": "cA=="})))];
    world.settle(&one_namespace);
    let mut copy = secret("default", "password", json!({}));
    json_patch::merge(&mut copy, &planted(&beside("password"), "related.listed[password]"));
    world.objects.insert(beside("password"), copy);
    world.settle(&one_namespace);
    assert!(!world.objects.contains_key(&beside("db-chosen")), "{:?}", world.log);
}

/// A provider of a cloud has a kind `Secret` of its own.
#[test]
fn an_object_of_another_group_makes_nothing_of_its_kind_and_name_readable() {
    let of_group = mapping(&IN_ONE_NAMESPACE.replace("kind: Database", "kind: Secret"));
    let (mut world, name) = (of(&[]), "db-3m4xmurapsacz2fe");
    world.edit_source(|source| source["spec"] = json!({"secretName": name}));
    world.originals = vec![(Side::Target, secret("databases", name, json!({"password": "cA=="})))];
    world.settle(&of_group);
    assert!(world.objects.keys().any(|at| at.name == name), "{:?}", world.log);
    assert!(!world.objects.contains_key(&beside("db-chosen")), "{:?}", world.log);
}

/// Two rules would overwrite the object of each other without an end.
#[test]
#[rustfmt::skip]
fn a_copy_does_not_take_the_place_of_another_object() {
    let chosen = "    - {id: chosen, direction: ToTarget, resource: secrets.v1, from: {name: \"{{ source.spec.secret }}\"}}\n";
    let other = "    - {id: other, direction: ToTarget, resource: secrets.v1, from: {name: db-config}, data: {rename: {admin: other}}}\n";
    let config = "template: {apiVersion: v1, kind: Secret, metadata: {name: \"{{ placement.name }}-config\"}, data: {admin: cA==}}\n";
    let one = mapping(&format!("  related:\n{chosen}  objects:\n    - id: config\n      {config}"));
    let two = mapping(&format!("  related:\n{chosen}{other}  objects:\n    - {{id: db, template: {{apiVersion: example.dev/v1, kind: Database, spec: {{size: 1}}}}}}\n"));
    let either = mapping(&format!("{}{config}", r#"  related:
    - id: chosen
      when: ${{ source.spec.secret is defined }}
      direction: ToTarget
      resource: secrets.v1
      from: {name: "{{ source.spec.secret }}"}
      to: {name: "{{ placement.name }}-config"}
  objects:
    - id: config
      when: ${{ source.spec.secret is not defined }}
      "#));
    check_by(|| of_secret("db-config"), &[
        ("of an object's name", |_| {}, &one,
            "blocked: RenderFailed: related object `chosen`: it would have the name of object `config`; add finalizer, create Namespace place, create Secret place/db-config, update status; db-config {'admin':'cA=='}"),
        ("of another name", |world| *world = of_secret("another"), &one,
            "in sync; add finalizer, create Namespace place, create Secret place/another, create Secret place/db-config, update status; another {'admin':'ZXZpbA=='}, db-config {'admin':'cA=='}"),
        ("of the name of another copy: the first one has it", |_| {}, &two,
            "blocked: RenderFailed: related object `other`: it would have the name of related object `chosen`; add finalizer, create Namespace place, create Secret place/db-config, create Database place/db, update status; db-config {'admin':'ZXZpbA=='}"),
        ("of the name of an object that is left out", |world| *world = of_secret("mine"), &either,
            "in sync; add finalizer, create Namespace place, create Secret place/db-config, update status; db-config {'admin':'ZXZpbA=='}"),
    ], |world, mapping| {
        let told = tell(world, mapping);
        world.rests(mapping);
        told
    });
}

/// It names a Secret of the consumer.
fn of_secret(name: &str) -> World {
    let original = (Side::Source, secret("default", name, json!({"admin": "ZXZpbA=="})));
    super::of(json!({"secret": name})).with(|world| world.originals = vec![original])
}
