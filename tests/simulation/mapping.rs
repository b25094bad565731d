//! The mapping of a world: what its author wrote, as data, and what follows from it for a source. Written from the
//! language's documentation, not from the engine's code.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sync_engine::object::hash::tuple_hash;

use super::action::{Edit, VERSIONS};
use super::server::{GROUP, RESOURCES, Side};

/// Only of sources that say so.
const EXTRA_ALONE: &str = "${{ source.spec.extra | default(false) }}";

/// An object that a mapping makes of each source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    pub id: &'static str,
    pub kind: &'static str,
    /// What follows the placement's name.
    pub suffix: &'static str,
    /// Only for sources with `spec.extra`.
    pub conditional: bool,
}

/// On which targets the objects of a source are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Spread {
    /// On the one that every mapping has.
    #[default]
    One,
    /// On that one, and on the second one if the source has `spec.extra`.
    Extra,
    /// On both.
    Both,
    /// On the one that every mapping has; the list names no other.
    First,
    /// On the second one; the list names no other.
    Second,
    /// On the second one if the source has `spec.extra`, else on the other one. A source stays where it is, or moves.
    Choice,
}

impl Spread {
    pub fn targets(self, extra: bool) -> &'static [Side] {
        match self {
            Self::Choice if extra => &[Side::Second],
            Self::Second => &[Side::Second],
            Self::Extra if extra => &[Side::Target, Side::Second],
            Self::Both => &[Side::Target, Side::Second],
            _ => &[Side::Target],
        }
    }
}

const TARGETS: [&str; 2] = ["target", "second"];
const CHOSEN: &str = "${{ 'second' if source.spec.extra | default(false) else 'target' }}";
const LISTED: &str = "${{ ['target', 'second'] if source.spec.extra | default(false) else ['target'] }}";
const BOTH: &str = "${{ ['target', 'second'] }}";
const FIRST: &str = "${{ ['target'] }}";
const SECOND: &str = "${{ ['second'] }}";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    pub name: &'static str,
    /// Plural of the source's resource.
    pub resource: &'static str,
    /// Objects are in the cluster of their source, in its namespace.
    pub is_beside: bool,
    /// Whether an edit reaches half of the sources first.
    pub in_waves: bool,
    /// On which targets the objects of a source are.
    pub spread: Spread,
    pub on_target_change: &'static str,
    pub rules: Vec<Rule>,
    /// Rules of copies, which are in `related`.
    pub related: Vec<Rule>,
    /// What the rule [`MORE`] copies.
    pub more: More,
    /// Whether servers delete the copy of the connection with its source.
    pub owner_reference: bool,
    /// What the author writes into every object.
    pub edition: u32,
    /// The version of the kind Widget.
    pub version: &'static str,
    /// Only sources with the label `tier: managed`.
    pub selects: bool,
    /// Only sources with `spec.extra`.
    pub when: bool,
    /// What follows the default namespace.
    pub namespace: &'static str,
    pub mode: &'static str,
    /// Whether objects that nobody owns are taken over.
    pub adopts: bool,
    pub on_identity_change: &'static str,
    pub on_source_vanished: &'static str,
    /// Empty: the default.
    pub on_source_recreated: &'static str,
    pub drift: &'static str,
    pub delete_policy: &'static str,
    /// `release.maxLost.objects`. Where it is limited, so is `maxFailing`.
    pub max_lost: u32,
    /// Fields of the status that it writes.
    pub status: BTreeSet<&'static str>,
    pub on_exit: &'static str,
    pub on_source_delete: &'static str,
    pub on_mapping_removed: &'static str,
}

pub const MAIN: Rule = Rule { id: "main", kind: "ConfigMap", suffix: "", conditional: false };
pub const CA: Rule = Rule { id: "ca", kind: "ConfigMap", suffix: "-ca", conditional: false };
pub const EXTRA: Rule = Rule { id: "extra", kind: "Secret", suffix: "-extra", conditional: true };
pub const WIDGET: Rule = Rule { id: "widget", kind: "Widget", suffix: "", conditional: false };
pub const QUOTA: Rule = Rule { id: "quota", kind: "ResourceQuota", suffix: "-quota", conditional: false };

/// A Secret whose password the engine makes once.
pub const MADE: Rule = Rule { id: "made", kind: "Secret", suffix: "-made", conditional: false };

/// The copy on the target of a Secret that the source names. The object `ca` depends on it.
pub const PASSWORD: Rule = Rule { id: "related.password", kind: "Secret", suffix: "-password", conditional: false };
/// The copy beside the source of a Secret that an operator writes on the target.
pub const CONNECTION: Rule = Rule { id: "related.connection", kind: "Secret", suffix: "-access", conditional: false };
/// What follows the placement's name in the name of that Secret.
pub const CONN: &str = "-conn";

/// Copies of Secrets that the source does not name alone.
pub const MORE: Rule = Rule { id: "related.more", kind: "Secret", suffix: "", conditional: false };

/// What the rule [`MORE`] copies to the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum More {
    /// The Secret that the source names, under its own name: one copy for all sources of a namespace.
    Shared,
    /// Each Secret with the label [`COPY`], under its own name.
    Selected,
    /// One Secret, or two of a source with `spec.extra`, each with another value.
    Each,
}

/// The label by which Secrets are selected.
pub const COPY: &str = "copy";
/// The Secrets of the list of [`More::Each`]: the second one for sources with `spec.extra`.
pub const ITEMS: [&str; 2] = ["s1", "s2"];
/// What precedes a value that is transformed.
pub const TRANSFORMED: &str = "of ";

/// What `release.maxLost.objects` is where nothing is held.
pub const OPEN: u32 = 1000;

/// The steps of a release in waves, in percent.
pub const WAVES: [u8; 2] = [50, 100];

/// Names of mappings.
pub const MAPPINGS: [&str; 2] = ["m", "n"];

/// Name of the mapping that an author puts beside the other one, on one of its resources.
pub const GUEST: &str = "g";

/// What may follow the default namespace.
pub const NAMESPACES: [&str; 2] = ["", "-2"];

/// What every world begins with.
pub fn first() -> Mapping {
    Mapping {
        name: MAPPINGS[0],
        resource: RESOURCES[0].0,
        is_beside: false,
        in_waves: false,
        spread: Spread::One,
        on_target_change: "Block",
        rules: vec![MAIN, CA],
        related: Vec::new(),
        more: More::Shared,
        owner_reference: false,
        edition: 1,
        version: VERSIONS[0],
        selects: false,
        when: false,
        namespace: "",
        mode: "Enforce",
        adopts: false,
        on_identity_change: "Block",
        on_source_vanished: "Retain",
        on_source_recreated: "",
        drift: "Correct",
        delete_policy: "Delete",
        max_lost: OPEN,
        status: BTreeSet::from(["size"]),
        on_exit: "Retain",
        on_source_delete: "Delete",
        on_mapping_removed: "Retain",
    }
}

/// A mapping that never changes and writes no status: one object of each source.
pub fn guest(is_beside: bool) -> Mapping {
    let rule = Rule { id: "guest", suffix: "-g", ..MAIN };
    Mapping { name: GUEST, rules: vec![rule], status: BTreeSet::new(), is_beside, ..first() }
}

/// What the author writes into one file.
pub fn file(documents: &[Value], is_fleet: bool) -> String {
    let clusters = match is_fleet {
        true => json!({"custom": {"name": "fleet"}}),
        false => json!({"kubeconfig": {"connection": "source"}}),
    };
    let provider = json!({
        "apiVersion": "sync-engine.dev/v1alpha1", "kind": "ClusterProvider", "metadata": {"name": "plain"}, "spec": clusters,
    });
    let mut documents = documents.to_vec();
    for document in
        documents.iter_mut().filter(|document| is_fleet && !document["spec"]["source"]["provider"].is_null())
    {
        document["spec"]["source"]["clusters"] = json!({"matchLabels": {"tier": "gold"}});
    }
    documents.iter().chain([&provider]).map(|document| format!("{document}\n")).collect::<Vec<_>>().join("---\n")
}

impl Mapping {
    /// The document of the mapping; for an engine with another id without what only one engine may write.
    pub fn document(&self, is_kcp: bool, is_other: bool) -> Value {
        let clusters = match is_kcp {
            true => json!({"apiExport": {"name": "things", "path": "root"}}),
            false => json!({"provider": "plain"}),
        };
        let mut source = clusters;
        source["resource"] = format!("{}.v1.{GROUP}", self.resource).into();
        source["onExit"] = self.on_exit.into();
        if self.selects {
            source["selector"] = json!({"matchLabels": {"tier": "managed"}});
        }
        if self.when {
            source["when"] = EXTRA_ALONE.into();
        }
        let mut lifecycle = json!({
            "onSourceDelete": self.on_source_delete, "onMappingRemoved": self.on_mapping_removed,
            "onSourceVanished": self.on_source_vanished,
        });
        if self.on_source_vanished == "Delete" {
            lifecycle["stuckAfter"] = format!("{}s", self.stuck_after().as_secs()).into();
        }
        if !self.on_source_recreated.is_empty() {
            lifecycle["onSourceRecreated"] = self.on_source_recreated.into();
        }
        let most = if self.max_lost == OPEN { "100%" } else { "0%" };
        let mut release = json!({"maxFailing": most, "maxLost": {"objects": self.max_lost, "percent": 100}});
        if self.in_waves {
            // What fails in these worlds is of the weather.
            let wave = |percent: u8| json!({"percent": percent, "soak": "20s", "maxFailing": "100%"});
            release["waves"] = json!(WAVES.map(wave));
        }
        let namespace = "{{ source.metadata.namespace | dns_label(40) }}-{{ short_hash(workspace.cluster, source.metadata.namespace) }}";
        let fields =
            self.status.iter().filter(|_| !is_other).map(|field| ((*field).to_owned(), self.field_of_status(field)));
        let fields: serde_json::Map<String, Value> = fields.collect();
        let objects: Vec<Value> = self.rules.iter().map(|rule| self.object(rule)).collect();
        let related: Vec<Value> = self.related.iter().map(|rule| self.related(rule)).collect();
        let is_guest = self.name == GUEST;
        let mut status = json!({
            "from": self.rules[0].id, "fields": fields, "observedGeneration": if is_other || is_guest { "Off" } else { "Auto" },
        });
        if is_guest {
            status["engineConditions"] = json!([]);
        }
        let mut document = json!({
            "apiVersion": "sync-engine.dev/v1alpha1", "kind": "Mapping", "metadata": {"name": self.name},
            "spec": {
                "mode": self.mode, "source": source, "objects": objects, "lifecycle": lifecycle,
                "status": status, "release": release,
            },
        });
        match self.spread {
            Spread::One => {}
            Spread::Choice => {
                document["spec"]["target"] = json!({
                    "cluster": CHOSEN, "allowed": TARGETS, "onTargetChange": self.on_target_change,
                })
            }
            Spread::Extra | Spread::Both | Spread::First | Spread::Second => {
                let (list, allowed) = match self.spread {
                    Spread::Both => (BOTH, &TARGETS[..]),
                    Spread::First => (FIRST, &TARGETS[..1]),
                    Spread::Second => (SECOND, &TARGETS[1..]),
                    _ => (LISTED, &TARGETS[..]),
                };
                document["spec"]["targets"] = json!({
                    "forEach": list, "as": "one", "key": "${{ one }}", "cluster": "{{ one }}", "allowed": allowed,
                })
            }
        }
        match self.is_beside {
            true => document["spec"]["target"] = json!({"cluster": "source"}),
            false => document["spec"]["placement"] = json!({"namespace": format!("{namespace}{}", self.namespace)}),
        }
        if !related.is_empty() {
            document["spec"]["related"] = related.into();
        }
        document
    }

    /// What the consumer reads of the first object, on the first target.
    fn field_of_status(&self, field: &str) -> Value {
        let id = self.rules[0].id;
        match self.spread {
            Spread::One | Spread::Choice => format!("$.data.{field}").into(),
            // Whichever target tells it, it reads what another one has. A process that starts while that one is away knows nothing
            // of it, and one that was there before does.
            _ => {
                let is_there = "targets.second.reason | default('Unreachable') not in ['Unreachable', 'Starting']";
                let on = format!("(targets.second if {is_there} else targets.target)");
                json!({"value": format!("${{{{ {on}.objects.{id}.data.{field} | default(omit) }}}}")})
            }
        }
    }

    fn object(&self, rule: &Rule) -> Value {
        let mut template = json!({
            "apiVersion": if rule.kind == WIDGET.kind { format!("{GROUP}/{}", self.version) } else { api_version(rule.kind) },
            "kind": rule.kind,
            "metadata": {"name": format!("{{{{ placement.name }}}}{}", rule.suffix)},
        });
        match rule.kind {
            "Secret" => template["data"] = json!({"token": "{{ source.spec.token | b64encode }}"}),
            // A server stores it as gibibytes.
            "ResourceQuota" => template["spec"]["hard"]["memory"] = "{{ source.spec.size * 1024 }}Mi".into(),
            _ => {
                template["data"] = json!({
                    "size": "{{ source.spec.size }}", "token": "{{ source.spec.token }}",
                    "edition": self.edition.to_string(),
                })
            }
        }
        if self.is_beside && rule.kind != "Secret" {
            template["data"][self.field()] = "only here".into();
        }
        if self.names_copy(rule) {
            template["data"][READS] = format!("{{{{ placement.name }}}}{}", PASSWORD.suffix).into();
        }
        let mut object = json!({
            "id": rule.id, "template": template, "drift": self.drift, "delete": {"policy": self.delete_policy},
            "onIdentityChange": self.on_identity_change,
        });
        if rule.conditional {
            object["when"] = EXTRA_ALONE.into();
        }
        if rule.id == MADE.id {
            object["template"]["data"]["edition"] = base64(&self.edition.to_string()).into();
            object["generate"] = json!({READS: {}});
        }
        self.say_adopts(&mut object);
        let needed: Vec<&str> = self.needed_by(rule.id).map(|rule| rule.id).collect();
        if !needed.is_empty() {
            object["dependsOn"] = needed.into();
        }
        object
    }

    /// Whether an object says how the copy of the password is called.
    fn names_copy(&self, rule: &Rule) -> bool {
        rule.id == CA.id && self.copies(PASSWORD.id)
    }

    /// What an object of this id names in `dependsOn`: the object `ca` the first one, and the copy of the password.
    pub fn needed_by(&self, id: &str) -> impl Iterator<Item = &Rule> {
        let password = self.related.iter().filter(|rule| rule.id == PASSWORD.id);
        self.rules.iter().take(1).chain(password).filter(move |_| id == CA.id)
    }

    /// `lifecycle.stuckAfter`: its default, or less where something waits for it.
    pub fn stuck_after(&self) -> Duration {
        Duration::from_secs(if self.on_source_vanished == "Delete" { 60 } else { 15 * 60 })
    }

    /// The field of an object beside its source that this edition of the templates alone has.
    pub fn field(&self) -> String {
        format!("{FIELD}{}", self.edition)
    }

    fn say_adopts(&self, rule: &mut Value) {
        if self.adopts {
            rule["adopt"] = "IfUnowned".into();
        }
    }

    /// A rule of `related`, as the language has it.
    fn related(&self, rule: &Rule) -> Value {
        let to = |name: &str| json!({"name": format!("{name}{}", rule.suffix)});
        let mut related = match *rule {
            PASSWORD => json!({
                "id": "password", "direction": "ToTarget", "resource": "secrets.v1",
                "from": {"name": "{{ source.spec.secret }}"}, "to": to("{{ placement.name }}"),
            }),
            MORE => self.more(),
            _ => json!({
                "id": "connection", "direction": "ToSource", "resource": "secrets.v1",
                "from": {"name": format!("{{{{ placement.name }}}}{CONN}")}, "to": to("{{ source.metadata.name }}"),
                "onMissing": "Skip", "ownerReference": self.owner_reference,
            }),
        };
        self.say_adopts(&mut related);
        related
    }

    fn more(&self) -> Value {
        let mut rule = json!({"id": "more", "direction": "ToTarget", "resource": "secrets.v1", "onMissing": "Skip"});
        match self.more {
            More::Shared => {
                rule["from"] = json!({"name": "{{ source.spec.secret }}"});
                rule["shared"] = "Namespace".into();
            }
            More::Selected => rule["from"] = json!({"selector": {"matchLabels": {COPY: "yes"}}}),
            More::Each => {
                let [first, second] = ITEMS;
                let list = format!("['{first}', '{second}'] if source.spec.extra | default(false) else ['{first}']");
                rule["forEach"] = format!("${{{{ {list} }}}}").into();
                rule["as"] = "one".into();
                rule["key"] = "${{ one }}".into();
                rule["from"] = json!({"name": "{{ one }}"});
                rule["to"] = json!({"name": "{{ placement.name }}-{{ one }}"});
                rule["data"] = json!({"transform": {"password": format!("{TRANSFORMED}{{{{ value }}}}")}});
            }
        }
        rule
    }

    /// Whether it makes one copy for all sources of a namespace.
    pub fn shares(&self) -> bool {
        self.more == More::Shared && self.copies(MORE.id)
    }

    /// Whether a copy has its rule.
    pub fn copies(&self, id: &str) -> bool {
        self.related.iter().any(|rule| rule.id == id)
    }

    /// The rules of everything that it makes.
    pub fn all_rules(&self) -> impl Iterator<Item = &Rule> {
        self.rules.iter().chain(&self.related)
    }

    /// What becomes of it by an edit.
    pub fn edit(&mut self, edit: Edit) {
        match edit {
            Edit::Resource(resource) => self.resource = resource,
            Edit::Edition => self.edition += 1,
            Edit::Toggle(id) => toggle(&mut self.rules, id, &[CA, EXTRA, WIDGET, QUOTA]),
            Edit::Related(id) => toggle(&mut self.related, id, &[PASSWORD, CONNECTION, MORE]),
            Edit::Selector => self.selects = !self.selects,
            Edit::When => self.when = !self.when,
            Edit::Namespace(suffix) => self.namespace = suffix,
            Edit::OnIdentityChange(policy) => self.on_identity_change = policy,
            Edit::OnSourceVanished(policy) => self.on_source_vanished = policy,
            Edit::OnSourceRecreated(policy) => self.on_source_recreated = policy,
            Edit::Drift(policy) => self.drift = policy,
            Edit::DeletePolicy(policy) => self.delete_policy = policy,
            Edit::MaxLost(most) => self.max_lost = most,
            Edit::Status(field) => drop(self.status.insert(field)),
            Edit::NoStatus(field) | Edit::Hand(field) => drop(self.status.remove(field)),
            Edit::Mode(mode) => self.mode = mode,
            Edit::OnExit(policy) => self.on_exit = policy,
            Edit::OnSourceDelete(policy) => self.on_source_delete = policy,
            Edit::OnMappingRemoved(policy) => self.on_mapping_removed = policy,
            Edit::Name(suffix) => self.rules[0].suffix = suffix,
            Edit::Kind(kind) => self.rules[0].kind = kind,
            Edit::Id(id) => self.rules[0].id = id,
            Edit::Version(version) => self.version = version,
            Edit::Rename(name) => self.name = name,
            Edit::Spread(spread) => self.spread = spread,
            Edit::OnTargetChange(policy) => self.on_target_change = policy,
            Edit::Adopt => self.adopts = !self.adopts,
            Edit::Remove | Edit::Break | Edit::Guest | Edit::Fleet => {}
        }
    }

    /// Whether a source is one of those that the mapping selects.
    pub fn selects(&self, source: &Value) -> bool {
        let is_labelled = !self.selects || source["metadata"]["labels"]["tier"] == "managed";
        is_labelled && (!self.when || source["spec"]["extra"] == true)
    }

    /// What becomes of the objects of a source that was created anew.
    pub fn on_source_recreated(&self, is_kcp: bool) -> &'static str {
        match self.on_source_recreated {
            "" if is_kcp => "Adopt",
            "" => "Block",
            policy => policy,
        }
    }

    /// Where the mapping puts the objects of a source.
    pub fn sides(&self, source: &Value) -> &'static [Side] {
        if self.is_beside { &[Side::Source] } else { self.spread.targets(source["spec"]["extra"] == true) }
    }

    /// Whether what a source has on a target goes once the mapping gives it others.
    pub fn may_leave_targets(&self) -> bool {
        self.spread != Spread::One && (self.spread != Spread::Choice || self.on_target_change == "Recreate")
    }

    /// What a source should have in a namespace of a target.
    pub fn objects(&self, side: Side, namespace: &str, source: &Value) -> Vec<Wanted> {
        let of_source = source["metadata"]["name"].as_str().unwrap_or_default();
        let token = source["spec"]["token"].as_str().unwrap_or_default();
        let wanted = self.rules.iter().filter(|rule| !rule.conditional || source["spec"]["extra"] == true);
        wanted
            .map(|rule| {
                let data = match rule.kind {
                    "Secret" => BTreeMap::from([("token".to_owned(), base64(token))]),
                    "ResourceQuota" => BTreeMap::from([("memory".to_owned(), format!("{}Gi", source["spec"]["size"]))]),
                    _ => BTreeMap::from([
                        ("size".to_owned(), source["spec"]["size"].to_string()),
                        ("token".to_owned(), token.to_owned()),
                        ("edition".to_owned(), self.edition.to_string()),
                    ]),
                };
                let edition = || ("edition".to_owned(), base64(&self.edition.to_string()));
                let of_made = (rule.id == MADE.id).then(edition);
                let own = (self.is_beside && rule.kind != "Secret").then(|| (self.field(), "only here".to_owned()));
                let copy = self.names_copy(rule).then(|| (READS.to_owned(), format!("{of_source}{}", PASSWORD.suffix)));
                let data = data.into_iter().chain(of_made).chain(own).chain(copy).collect();
                let name = format!("{of_source}{}", rule.suffix);
                Wanted { side, id: rule.id, kind: rule.kind, namespace: namespace.to_owned(), name, data }
            })
            .collect()
    }
}

/// Removes the rule of an id, or adds the one that there is of it.
fn toggle(rules: &mut Vec<Rule>, id: &str, all: &[Rule]) {
    match rules.iter().position(|rule| rule.id == id) {
        Some(index) => drop(rules.remove(index)),
        None => rules.extend(all.iter().find(|rule| rule.id == id)),
    }
}

/// Kinds that objects are made of, with their plurals: the last one by a CustomResourceDefinition.
pub const KINDS: [(&str, &str); 4] =
    [("ConfigMap", "configmaps"), ("Secret", "secrets"), ("ResourceQuota", "resourcequotas"), ("Widget", "widgets")];

/// What an object says of what its rule gives it.
pub fn contents(object: &Value) -> BTreeMap<String, String> {
    let of_quota = Some(&object["spec"]["hard"]).filter(|hard| hard.is_object());
    serde_json::from_value(of_quota.unwrap_or(&object["data"]).clone()).unwrap_or_default()
}

pub fn api_version(kind: &str) -> String {
    if kind == "Widget" { format!("{GROUP}/v1") } else { "v1".to_owned() }
}

/// The plural of one of these kinds.
pub fn plural(kind: &str) -> &'static str {
    KINDS.iter().find(|(known, _)| *known == kind).map_or("", |(_, plural)| plural)
}

/// Whether objects are made of the kind with this plural.
pub fn is_made(plural: &str) -> bool {
    KINDS.iter().any(|(_, known)| *known == plural)
}

/// Where a kind's objects are on the target.
pub fn url(kind: &str, namespace: &str, name: &str) -> String {
    let plural = plural(kind);
    let prefix = if kind == "Widget" { format!("/apis/{GROUP}/v1") } else { "/api/v1".to_owned() };
    let namespace = if namespace.is_empty() { String::new() } else { format!("/namespaces/{namespace}") };
    let name = if name.is_empty() { String::new() } else { format!("/{name}") };
    format!("{prefix}{namespace}/{plural}{name}")
}

/// An object that should be on the target.
#[derive(Clone, Debug)]
pub struct Wanted {
    pub side: Side,
    pub id: &'static str,
    pub kind: &'static str,
    pub namespace: String,
    pub name: String,
    pub data: BTreeMap<String, String>,
}

/// The field that names the copy of the password, or holds one that was made.
pub const READS: &str = "password";

/// How fields begin that one edition alone has.
pub const FIELD: &str = "in-edition-";

/// The default namespace of a source's objects.
pub fn placement(cluster: &str, namespace: &str) -> String {
    format!("{namespace}-{}", tuple_hash([cluster, namespace], 10))
}

pub fn base64(text: &str) -> String {
    data_encoding::BASE64.encode(text.as_bytes())
}
