//! What an author is shown.

use serde_json::json;

use super::*;
use crate::mapping::coverage::Coverage;
use crate::mapping::expression::Recorder;
use crate::plan::tests::{HEAD, mapping};

const MAPPING: &str = r#"    when: ${{ source.spec.size | default(0) < 100 }}
  objects:
    - id: account
      shared: Namespace
      template: {apiVersion: v1, kind: ServiceAccount, metadata: {name: runner}}
    - id: db
      template: {apiVersion: example.dev/v1, kind: Cluster, spec: {size: "${{ source.spec.size }}"}}
    - id: view
      template:
        apiVersion: example.dev/v1
        kind: View
        spec: {host: "${{ objects.db.status.host }}"}
  status:
    from: db
    fields:
      phase: {path: $.status.phase, default: Pending}
      host: $.status.host
"#;

fn scene(spec: Value, standing: Vec<Value>) -> Scene {
    let source = json!({
        "apiVersion": "example.dev/v1", "kind": "Database", "metadata": {"namespace": "default", "name": "a"},
        "spec": spec,
    });
    Scene {
        engine: "main".into(),
        cluster: ClusterName::try_from("abc").expect("a name"),
        workspace_path: None,
        source: Arc::new(source),
        standing,
        related: Vec::new(),
        schema: None,
        steps: 0,
    }
}

#[test]
fn what_stands_is_recognized_and_read() {
    let mapping = mapping(MAPPING);
    let cluster = json!({"apiVersion": "example.dev/v1", "kind": "Cluster", "status": {"phase": "Up", "host": "h"}});
    let other = json!({"apiVersion": "example.dev/v1", "kind": "Cluster", "metadata": {"name": "b"}});
    let preview = preview(&mapping, &scene(json!({"size": 3}), vec![other, cluster])).expect("rendered");
    assert_eq!(preview.strangers, [0]);
    assert!(preview.reasons.0.is_empty(), "{}", preview.reasons);
    let (.., view) = preview.objects().nth(2).expect("rendered");
    assert_eq!(view.body["spec"], json!({"host": "h"}));
    let synced = json!([{"type": "Synced", "status": "True", "reason": "Synced", "message": ""}]);
    assert_eq!(preview.status, Some(json!({"phase": "Up", "host": "h", "conditions": synced})));
}

#[test]
fn a_workspace_path_that_is_not_known_is_absent() {
    let mapping = mapping(
        "  objects:
    - {id: db, template: {apiVersion: example.dev/v1, kind: Cluster, spec: {path: \"${{ workspace.path | default('none') }}\"}}}
",
    );
    let preview = preview(&mapping, &scene(json!({}), Vec::new())).expect("rendered");
    let (.., db) = preview.objects().next().expect("rendered");
    assert_eq!(db.body["spec"], json!({"path": "none"}));
}

/// Its original has the same name, and `observed` is about the target.
#[test]
fn what_has_no_namespace_is_no_copy_beside_the_source() {
    let mapping = mapping(
        "  related:
    - id: login
      direction: ToSource
      resource: secrets.v1
      from: {name: \"{{ placement.name }}-login\"}
      onMissing: Skip
  objects:
    - {id: db, template: {apiVersion: example.dev/v1, kind: Cluster, spec: {size: 1}}}
",
    );
    let login = |metadata: Value| json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata});
    let standing = vec![login(json!({"name": "a-login"})), login(json!({"name": "a-login", "namespace": "default"}))];
    let scene = Scene { steps: SETTLED, ..scene(json!({}), standing) };
    assert_eq!(preview(&mapping, &scene).expect("rendered").strangers, [0]);
}

/// A comparison with a document of another name does not take over what the former one made.
#[test]
fn what_another_mapping_owns_is_a_stranger() {
    let mapping = mapping(MAPPING);
    let owned_by = |owner: &str| {
        let metadata = json!({"labels": {"sync-engine.dev/mapping": format!("main.{owner}")}});
        json!({"apiVersion": "example.dev/v1", "kind": "Cluster", "metadata": metadata})
    };
    let standing = vec![owned_by("another"), owned_by(&mapping.name)];
    let preview = preview(&mapping, &scene(json!({"size": 3}), standing)).expect("rendered");
    assert_eq!(preview.strangers, [0]);
}

/// An engine deletes it before it writes the status.
#[test]
fn no_field_is_read_from_an_object_that_stands_and_is_not_wanted() {
    let mapping = mapping(
        "  objects:
    - id: db
      when: ${{ source.spec.size > 0 }}
      template: {apiVersion: example.dev/v1, kind: Cluster, spec: {size: 1}}
  status:
    fields:
      phase: {path: $.status.phase, default: Pending}
",
    );
    let cluster = json!({"apiVersion": "example.dev/v1", "kind": "Cluster", "status": {"phase": "Up"}});
    for (size, phase) in [(1, "Up"), (0, "Pending")] {
        let preview = preview(&mapping, &scene(json!({"size": size}), vec![cluster.clone()])).expect("rendered");
        assert_eq!(preview.status.expect("a status")["phase"], phase);
        assert_eq!(preview.strangers, [0; 0], "it is one of the mapping's");
    }
}

/// A comparison follows a document that lets the source go on what there is of it.
#[test]
fn what_stands_is_recognized_of_a_source_that_does_not_pass_the_filter() {
    let cluster = json!({"apiVersion": "example.dev/v1", "kind": "Cluster"});
    let there = there(&mapping(MAPPING), &scene(json!({"size": 100}), vec![cluster]));
    let found: Vec<_> = there.iter().map(|(target, objects)| (target.as_str(), objects.iter().count())).collect();
    assert_eq!(found, [("target", 1)]);
}

#[test]
fn what_does_not_stand_is_waited_for() {
    let mapping = mapping(MAPPING);
    let preview = preview(&mapping, &scene(json!({"size": 3}), Vec::new())).expect("rendered");
    assert!(!preview.failed());
    insta::assert_snapshot!(preview.reasons, @"Waiting: object `view`: object `db` (read at `spec.host`)");
    assert_eq!(preview.status.expect("a status")["phase"], "Pending");
}

/// An object that is given as it stands is as ready as it says.
#[test]
fn what_is_rendered_is_taken_for_made_and_ready_until_nothing_more_comes_of_it() {
    let chain = MAPPING.replace("${{ objects.db.status.host }}", "${{ objects.db.metadata.name }}");
    let chain = chain.replace("    - id: view\n", "    - id: view\n      dependsOn: [account]\n");
    let chain = mapping(&chain.replace(
        "  status:\n    from: db\n",
        r#"    - id: last
      dependsOn: [view]
      template: {apiVersion: example.dev/v1, kind: Last, spec: {view: "${{ objects.view.ready }}"}}
  status:
    from: db
"#,
    ));
    let shown = |steps: usize, standing: Vec<Value>| {
        let scene = Scene { steps, ..scene(json!({"size": 3}), standing) };
        let preview = preview(&chain, &scene).expect("rendered");
        let ids: Vec<_> = preview.objects().map(|(_, rule, ..)| rule.id.clone()).collect();
        format!("{} <{}>", ids.join(" "), preview.reasons)
    };
    let unready = json!({"apiVersion": "example.dev/v1", "kind": "View", "status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    let all =
        [shown(0, vec![]), shown(1, vec![]), shown(2, vec![]), shown(SETTLED, vec![]), shown(SETTLED, vec![unready])];
    insta::assert_snapshot!(all.join("\n"), @"
    account db <Waiting: object `view`: object `db` (read at `spec.host`); Waiting: object `last`: object `view` (read at `spec.view`)>
    account db view <Waiting: object `last`: object `view` (read at `spec.view`)>
    account db view last <>
    account db view last <>
    account db view last <Waiting: object `last`: waits for object `view`, which is not ready: its condition Ready is False>
    ");
}

#[test]
fn a_filter_and_a_failure_are_told_apart() {
    let mapping = mapping(MAPPING);
    assert_eq!(preview(&mapping, &scene(json!({"size": 100}), Vec::new())).err(), Some(Unseen::Out));
    assert!(preview(&mapping, &scene(json!({}), Vec::new())).expect("rendered").failed());
    let undecided = preview(&mapping, &scene(json!({"size": "many"}), Vec::new())).err();
    assert!(matches!(undecided, Some(Unseen::Unrendered(_))), "{undecided:?}");
}

const RELATED: &str = r#"  target: {cluster: "{{ source.spec.region }}", allowed: [east, west]}
  vars:
    ca: ${{ related.ca.data["ca.crt"] | default("none") }}
  related:
    - id: password
      direction: ToTarget
      resource: secrets.v1
      forEach: [ann, bob]
      as: user
      key: ${{ user }}
      from: {name: "{{ user }}-password"}
      to: {name: "{{ placement.name }}-{{ user }}"}
      data: {include: [password], rename: {password: pass}}
    - {id: ca, direction: ToTarget, resource: configmaps.v1, from: {name: ca}, onMissing: Skip}
    - {id: backup, direction: ToSource, resource: secrets.v1, from: {selector: {matchLabels: {of: backup}}}}
  objects:
    - id: db
      dependsOn: [related.password]
      template:
        apiVersion: example.dev/v1
        kind: Cluster
        spec: {ca: "${{ vars.ca }}", region: "${{ target.cluster }}"}
    - id: user
      template:
        apiVersion: example.dev/v1
        kind: User
        spec: {secret: "${{ related.password.bob.to.name }}", of: "${{ related.password[source.spec.owner].from.name }}"}
  status:
    fields:
      backups: {value: "${{ related.backup | default({}) | items | map(attribute='0') | list }}"}
      ann: {value: "${{ related.password.ann.to.name }}"}
"#;

fn secret(namespace: &str, name: &str) -> Arc<Value> {
    Arc::new(json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {"namespace": namespace, "name": name, "labels": {"of": "backup"}, "uid": "u"},
        "data": {"password": "aHVudGVyMg==", "other": "eA=="},
    }))
}

/// Reasons, what is rendered, and the status.
fn shown(scene: &Scene) -> String {
    let mapping = mapping(RELATED);
    let preview = match preview(&mapping, scene) {
        Ok(preview) => preview,
        Err(unseen) => return format!("{unseen:?}"),
    };
    let objects = preview.objects().map(|(_, rule, _, desired)| match rule.copy {
        None => format!("{}: {}", rule.id, desired.body["spec"]),
        Some(_) => format!("{}: {} {}", rule.id, desired.reference, desired.body["data"]),
    });
    let status = preview.status.clone().unwrap_or_default();
    let fields = format!("backups {} ann {}", status["backups"], status["ann"]);
    let reasons = preview.reasons.0.iter().map(|reason| format!("{}: {}", reason.cause.as_str(), reason.detail));
    objects.chain([fields]).chain(reasons).collect::<Vec<_>>().join("\n")
}

#[test]
fn related_objects_are_read_waited_for_and_carried() {
    let mut scene = scene(json!({"region": "west", "owner": "ann"}), Vec::new());
    let mut all = vec![shown(&scene)];
    scene.related = vec![secret("default", "ann-password"), secret("elsewhere", "bob-password")];
    all.push(shown(&scene));
    let namespace = preview(&mapping(RELATED), &scene).expect("rendered").rendering().place.namespace.clone();
    let ca = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ca"}, "data": {"ca.crt": "PEM"}});
    scene.related = vec![
        secret("default", "ann-password"),
        // As people write it.
        Arc::new(json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "default", "name": "bob-password"},
            "stringData": {"password": "hunter2", "other": "x"},
        })),
        secret(&namespace, "nightly"),
        Arc::new(ca),
    ];
    for steps in [0, SETTLED] {
        scene.steps = steps;
        all.push(shown(&scene).replace(&namespace, "NAMESPACE"));
    }
    insta::assert_snapshot!(all.join("\n---\n"), @r#"
    db: {"ca":"none","region":"west"}
    backups [] ann null
    Waiting: related object `password[ann]`: secrets default/ann-password does not exist in the consumer's cluster
    Waiting: related object `password[bob]`: secrets default/bob-password does not exist in the consumer's cluster
    Waiting: related object `backup`: it is not read while Cluster default-r7udrysckmmlkpz2/a does not exist yet
    Waiting: object `db`: waits for related object `password[ann]`: secrets default/ann-password does not exist in the consumer's cluster
    Waiting: object `user`: related object `password[bob]` (read at `spec.secret`)
    ---
    db: {"ca":"none","region":"west"}
    related.password: Secret default-r7udrysckmmlkpz2/a-ann {"pass":"aHVudGVyMg=="}
    backups [] ann "a-ann"
    Waiting: related object `password[bob]`: secrets default/bob-password does not exist in the consumer's cluster
    Waiting: related object `backup`: it is not read while Cluster default-r7udrysckmmlkpz2/a does not exist yet
    Waiting: object `db`: waits for related object `password[bob]`: secrets default/bob-password does not exist in the consumer's cluster
    Waiting: object `user`: related object `password[bob]` (read at `spec.secret`)
    ---
    db: {"ca":"PEM","region":"west"}
    user: {"of":"ann-password","secret":"a-bob"}
    related.password: Secret NAMESPACE/a-ann {"pass":"aHVudGVyMg=="}
    related.password: Secret NAMESPACE/a-bob {"pass":"aHVudGVyMg=="}
    related.ca: ConfigMap NAMESPACE/ca {"ca.crt":"PEM"}
    backups [] ann "a-ann"
    Waiting: related object `backup`: it is not read while Cluster NAMESPACE/a does not exist yet
    Waiting: object `db`: waits for related object `password[ann]`: its copy does not exist yet
    Waiting: object `user`: waits for related object `password[ann]`: its copy does not exist yet
    ---
    db: {"ca":"PEM","region":"west"}
    user: {"of":"ann-password","secret":"a-bob"}
    related.password: Secret NAMESPACE/a-ann {"pass":"aHVudGVyMg=="}
    related.password: Secret NAMESPACE/a-bob {"pass":"aHVudGVyMg=="}
    related.ca: ConfigMap NAMESPACE/ca {"ca.crt":"PEM"}
    related.backup: Secret default/nightly in the consumer's cluster {"other":"eA==","password":"aHVudGVyMg=="}
    backups ["nightly"] ann "a-ann"
    "#);
}

/// An engine is in sync without it.
#[test]
fn what_a_status_alone_reads_is_waited_for_by_nothing() {
    let tells = mapping(
        "  related:
    - {id: front, direction: ToTarget, resource: services.v1, from: {name: front}}
  objects:
    - {id: db, template: {apiVersion: example.dev/v1, kind: Cluster, spec: {size: 1}}}
  status:
    fields:
      port: {value: \"${{ related.front.spec.port | default(omit) }}\"}
",
    );
    let preview = preview(&tells, &scene(json!({}), Vec::new())).expect("rendered");
    assert!(preview.reasons.is_in_sync(), "{}", preview.reasons);
    assert_eq!(preview.status.expect("a status")["conditions"][0]["status"], "True");
}

#[test]
fn a_target_is_one_that_is_allowed() {
    let of = |spec: Value| shown(&scene(spec, Vec::new()));
    insta::assert_snapshot!([of(json!({"region": "north"})), of(json!({}))].join("\n"), @r#"
    Unrendered(Reason { cause: RenderFailed, detail: "target.cluster: it gives none of the targets that are allowed (`east`, `west`)" })
    Unrendered(Reason { cause: RenderFailed, detail: "target.cluster: `source.spec.region` is absent: give a value with `default(...)`, leave the key out with `default(omit)`, or test it with `is defined`" })
    "#);
}

const BRANCHES: &str = r#"    when: ${{ source.spec.size | default(0) < 100 }}
  placement:
    namespaceLabels: {team: "{{ source.spec.team }}"}
  vars:
    plan: ${{ "big" if source.spec.size > 9 else "small" }}
  objects:
    - id: db
      template:
        apiVersion: example.dev/v1
        kind: Cluster
        metadata: {name: "{{ source.metadata.name }}-db"}
        spec:
          plan: ${{ vars.plan | default("free" if source.spec.trial else "none") }}
          note: "{% if source.spec.size > 5 %}large{% elif source.spec.size > 1 %}some{% else %}one{% endif %}"
          args: "{% for arg in source.spec.args | default([]) %}--{{ arg }}{% else %}none{% endfor %}"
          users:
            $each: ${{ source.spec.users | default([]) }}
            $as: user
            $when: ${{ user.active | default(true) }}
            $item: {name: "${{ user.name }}"}
      ready: ${{ objects.db.status.phase == "Up" }}
    - id: view
      when: ${{ true }}
      forEach: ${{ source.spec.views | default([]) }}
      as: view
      key: ${{ view }}
      template:
        apiVersion: example.dev/v1
        kind: View
        metadata: {name: "{{ view }}"}
        spec: {host: "${{ objects.db.status.host }}"}
  status:
    fields:
      phase: {from: db, path: $.status.phase, transform: "${{ value | upper }}"}
"#;

/// How much the scenes evaluate: none, each, and all; then what there is to evaluate, with a mark for each scene that does.
fn covered(scenes: &[Scene]) -> String {
    let (text, mapping) = (format!("{HEAD}{BRANCHES}"), mapping(BRANCHES));
    let of = |scenes: &[Scene]| {
        let recorder = Recorder::default();
        scenes.iter().for_each(|scene| drop(recorded(&mapping, scene, &recorder)));
        Coverage::of(&mapping, &recorder)
    };
    let each: Vec<Coverage> = scenes.chunks(1).map(of).collect();
    let head = |of: &Coverage| format!("{} of {}, {} %", of.covered(), of.total, of.percent());
    let (none, all) = (of(&[]), of(scenes));
    let heads = [&none].into_iter().chain(&each).chain([&all]).map(head).collect::<Vec<_>>().join("; ");
    let lines = none.missed.iter().map(|point| {
        let mark = |one: &Coverage| if one.missed.contains(point) { '.' } else { 'x' };
        let marks: String = each.iter().map(mark).collect();
        format!("{marks} {}: {}", point.goal.as_str(), &text[point.place.clone()])
    });
    std::iter::once(heads).chain(lines).collect::<Vec<_>>().join("\n")
}

#[test]
fn what_is_evaluated_is_taken_down() {
    let small = scene(json!({"size": 1, "team": "a"}), Vec::new());
    let full = json!({"size": 10, "team": "a", "args": ["x"], "users": [{"name": "ada"}], "views": ["all"]});
    let up = json!({"apiVersion": "example.dev/v1", "kind": "Cluster", "status": {"phase": "Up", "host": "h"}});
    let few = scene(json!({"size": 2, "team": "a", "users": [{"active": false}]}), Vec::new());
    let huge = scene(json!({"size": 100}), Vec::new());
    insta::assert_snapshot!(covered(&[small, scene(full, vec![up]), few, huge]), @r#"
    0 of 36, 0 %; 14 of 36, 38 %; 21 of 36, 58 %; 14 of 36, 38 %; 1 of 36, 2 %; 31 of 36, 86 %
    xxx. true: source.spec.size | default(0) < 100
    ...x false: source.spec.size | default(0) < 100
    .... fallback: 0
    xxx. expression: source.spec.team
    xxx. expression: "big" if source.spec.size > 9 else "small"
    .x.. branch: "big"
    x.x. branch: "small"
    xxx. expression: source.metadata.name
    xxx. expression: vars.plan | default("free" if source.spec.trial else "none")
    .... fallback: "free" if source.spec.trial else "none"
    .... branch: "free"
    .... branch: "none"
    .x.. true: source.spec.size > 5
    x.x. false: source.spec.size > 5
    ..x. true: source.spec.size > 1
    x... false: source.spec.size > 1
    .x.. item: source.spec.args | default([])
    x.x. empty: source.spec.args | default([])
    x.x. fallback: []
    .x.. expression: arg
    .x.. item: ${{ source.spec.users | default([]) }}
    xxx. expression: source.spec.users | default([])
    x... fallback: []
    .x.. true: user.active | default(true)
    ..x. false: user.active | default(true)
    .x.. fallback: true
    .x.. expression: user.name
    .x.. true: objects.db.status.phase == "Up"
    .... false: objects.db.status.phase == "Up"
    .x.. item: ${{ source.spec.views | default([]) }}
    xxx. expression: source.spec.views | default([])
    x.x. fallback: []
    .x.. expression: view
    .x.. expression: view
    .x.. expression: objects.db.status.host
    .x.. expression: value | upper
    "#);
}

/// Nobody is told more, or anything else, because notes are taken.
#[test]
fn taking_notes_changes_nothing() {
    let mapping = mapping(BRANCHES);
    let up = json!({"apiVersion": "example.dev/v1", "kind": "Cluster", "status": {"phase": "Up", "host": "h"}});
    let scene = scene(json!({"size": 3, "team": "a", "args": ["x"], "views": ["all"]}), vec![up]);
    let shown = |preview: Result<Preview<'_>, Unseen>| {
        let preview = preview.expect("rendered");
        let bodies: Vec<_> = preview.objects().map(|(.., desired)| desired.body.clone()).collect();
        (bodies, preview.status, preview.reasons, preview.namespace_labels)
    };
    assert_eq!(shown(preview(&mapping, &scene)), shown(recorded(&mapping, &scene, &Recorder::default())));
}

const SEVERAL: &str = r#"  targets:
    forEach: ${{ source.spec.regions }}
    as: region
    key: ${{ region.name }}
    cluster: "{{ region.name }}"
    allowed: [east, west]
  objects:
    - id: db
      template: {apiVersion: example.dev/v1, kind: Cluster, spec: {size: "${{ region.size }}", at: "{{ target.cluster }}"}}
      ready: ${{ objects.db.status.up }}
  status:
    fields:
      ready: {value: "${{ targets | items | selectattr('1.ready') | length }}"}
      east: {value: "${{ targets.east.objects.db.spec.at | default('none') }}"}
"#;

#[test]
fn each_target_has_its_objects_and_the_status_is_of_all() {
    let mapping = mapping(SEVERAL);
    let shown = |regions: Value, standing: Vec<Value>| {
        let scene = scene(json!({"regions": regions}), standing);
        let preview = preview(&mapping, &scene).expect("rendered");
        let objects = preview.objects().map(|(at, _, _, desired)| format!("{:?} {}", at.name(), desired.body["spec"]));
        let reasons = preview.reasons.0.iter().map(|reason| format!("{:?} {}", reason.cause, reason.detail));
        let mut status = preview.status.clone().unwrap_or_default();
        status.as_object_mut().map(|fields| fields.remove("conditions"));
        (objects.collect::<Vec<_>>(), reasons.collect::<Vec<_>>(), status)
    };
    let east = json!({"name": "east", "size": 1});
    let both = json!([east, {"name": "west", "size": 2}]);
    let made = [r#"Some("east") {"at":"east","size":1}"#, r#"Some("west") {"at":"west","size":2}"#].map(str::to_owned);
    assert_eq!(shown(both.clone(), Vec::new()), (made.to_vec(), Vec::new(), json!({"ready": 0, "east": "none"})));

    // What stands counts on each target that it may be on.
    let cluster =
        json!({"apiVersion": "example.dev/v1", "kind": "Cluster", "spec": {"at": "there"}, "status": {"up": true}});
    assert_eq!(shown(both, vec![cluster]), (made.to_vec(), Vec::new(), json!({"ready": 2, "east": "there"})));

    let nothing = json!({"ready": 0, "east": "none"});
    assert_eq!(shown(json!([]), Vec::new()), (Vec::new(), Vec::new(), nothing.clone()));
    let refused =
        "RenderFailed target `south`: targets.cluster: it gives none of the targets that are allowed (`east`, `west`)";
    let (objects, reasons, status) = shown(json!([{"name": "south", "size": 3}, east]), Vec::new());
    assert_eq!((objects, reasons, status), (made[..1].to_vec(), vec![refused.to_owned()], nothing));
}
