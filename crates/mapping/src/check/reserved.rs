//! Fields of operators' APIs that are not a consumer's to fill: the one table of them, for mappings that are checked
//! (`validate`) and for mappings that are made (`init`).

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value as Json;

use crate::schema::Form;
use crate::yaml;

/// Why a field is not the consumer's to fill.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Why {
    /// Pods, or parts of them.
    Pods,
    /// What runs in the operator's pods.
    Program,
    /// The environment of the operator's pods.
    Environment,
    /// What an operator puts into a command line.
    Command(&'static str),
    /// Where and as whom pods run.
    Placement,
    /// Other tenants' namespaces.
    Reach,
    /// A name that all tenants share, for a reason of its own; with words of the mapping in it, it can be a tenant's own.
    Alone(&'static str),
    /// For a reason of its own, as a main clause.
    Reserved(&'static str),
}

impl Why {
    /// As a main clause.
    pub fn sentence(self) -> &'static str {
        match self {
            Self::Pods => "pods of the consumer's making would run on the target",
            Self::Program => "a consumer would choose the program that runs with the operator's rights",
            Self::Environment => {
                "a consumer would set the environment of the operator's pods, also from other Secrets of the namespace"
            }
            Self::Placement => "a consumer would say on which nodes, and with whose rights, pods run",
            Self::Reach => "an operator that follows them would reach into other tenants' namespaces",
            Self::Command(why) | Self::Alone(why) | Self::Reserved(why) => why,
        }
    }

    /// Of the finding about a mapping that lets a consumer fill the field.
    pub(super) fn code(self) -> &'static str {
        match self {
            Self::Pods => "SE0705",
            Self::Reach => "SE0703",
            Self::Command(_) => "SE0707",
            Self::Program | Self::Environment | Self::Placement | Self::Alone(_) | Self::Reserved(_) => "SE0709",
        }
    }
}

/// What a value must look like for its name to count.
#[derive(Debug, Clone, Copy)]
enum Looks {
    Anything,
    Text,
    /// A list, or a map; what a schema leaves open can be both.
    Structure,
    List,
    /// A map or a list of maps with one of these keys, or one whose keys the schema leaves open.
    With(&'static [&'static str]),
    /// The same, and its keys are spelled out.
    Exactly(&'static [&'static str]),
}

/// A field as far as a schema tells: its form, and the keys of the map, or of the maps in the list.
#[derive(Debug, Clone)]
pub struct Value<'s> {
    pub form: Form,
    pub keys: Vec<&'s str>,
}

impl Looks {
    fn fits(self, value: &Value<'_>) -> bool {
        let structured = matches!(value.form, Form::Map | Form::List | Form::Any);
        let has = |keys: &[&str]| value.keys.iter().any(|key| keys.contains(key));
        match self {
            Self::Anything => true,
            Self::Text => value.form.meets(Form::Text),
            Self::Structure => structured,
            Self::List => matches!(value.form, Form::List | Form::Any),
            Self::With(keys) => structured && (value.keys.is_empty() || has(keys)),
            Self::Exactly(keys) => structured && has(keys),
        }
    }
}

const POD: Looks = Looks::Exactly(&["containers"]);
const VOLUMES: &[&str] = &["csi", "hostPath", "projected", "secret"];
const HOST: &[&str] = &["hostIPC", "hostNetwork", "hostPID", "hostPath", "hostPort", "hostUsers"];
const NODES: &[&str] = &["affinity", "hostAliases", "nodeAffinity", "nodeSelector", "tolerations"];
const CONTEXTS: &[&str] = &["*SecurityContext", "seccompProfile", "securityContext", "serviceAccountTemplate"];
const CLASSES: &[&str] = &["podPriorityClassName", "priorityClassName", "runtimeClassName", "schedulerName"];
const COMPOSITIONS: &[&str] =
    &["compositionRef", "compositionRevisionRef", "compositionRevisionSelector", "compositionSelector"];

const EXTERNAL: &str =
    "a Service with addresses of a consumer's choice gets traffic that is meant for others (CVE-2020-8554)";

const RELEASED: &str = "a claim that names its volume gets what another tenant left on it";
const ACCOUNT: &str = "a consumer would choose with which of the provider's accounts Crossplane works";
const COMPOSED: &str = "a consumer would choose what Crossplane makes of the object, with the provider's accounts";

/// Names that mean the same wherever operators have them; the first that fits counts. A `*` stands for any beginning.
const NAMED: [(Why, Looks, &[&str]); 29] = [
    (Why::Pods, POD, &["*"]),
    (Why::Pods, Looks::Structure, &["containers", "ephemeralContainers", "extraContainers", "initContainers"]),
    (Why::Pods, Looks::Exactly(&["image"]), &["*Containers"]),
    (Why::Pods, Looks::Structure, &["podSpec", "podTemplate", "podTemplateSpec"]),
    (Why::Pods, Looks::Structure, &["sidecarContainers", "sidecars", "statefulSet"]),
    (Why::Program, Looks::List, &["command"]),
    (Why::Program, Looks::Structure, &["args", "*Args", "extraFlags", "*ExtraFlags"]),
    (Why::Program, Looks::Structure, &["images", "imagePullSecret", "imagePullSecrets"]),
    (Why::Program, Looks::Anything, &["image"]),
    (Why::Program, Looks::Text, &["baseImage", "command", "dockerImage", "hookScript", "imageName", "*Image"]),
    (Why::Program, Looks::Exactly(&["postStart", "preStop"]), &["lifecycle"]),
    (Why::Environment, Looks::Exactly(&["valueFrom"]), &["env", "*Env", "*EnvVars"]),
    (Why::Environment, Looks::Structure, &["envFrom"]),
    (Why::Environment, Looks::Text, &["envVarsSecret"]),
    (Why::Placement, Looks::Anything, HOST),
    (Why::Placement, Looks::Anything, &["serviceAccount"]),
    (Why::Placement, Looks::Text, &["nodeName", "serviceAccountName"]),
    (Why::Placement, Looks::Text, CLASSES),
    (Why::Placement, Looks::Exactly(&["name"]), &["scheduler"]),
    (Why::Placement, Looks::Structure, NODES),
    (Why::Placement, Looks::Structure, CONTEXTS),
    (Why::Placement, Looks::With(VOLUMES), &["volume", "volumes", "*Volumes"]),
    (Why::Placement, Looks::Exactly(&["projected"]), &["*"]),
    (Why::Reserved(EXTERNAL), Looks::Anything, &["externalIPs"]),
    (Why::Reserved(RELEASED), Looks::Text, &["volumeName"]),
    (Why::Reserved(ACCOUNT), Looks::Structure, &["providerConfigRef"]),
    (Why::Reserved(COMPOSED), Looks::Structure, COMPOSITIONS),
    (Why::Reach, Looks::Text, &["namespace", "*Namespace"]),
    (Why::Reach, Looks::Anything, &["namespaces", "*Namespaces", "*amespaceSelector", "allowCrossNamespaceImport"]),
];

/// What a name means by itself.
pub(super) fn named(name: &str, value: &Value<'_>) -> Option<Why> {
    let is_it = |pattern: &&str| match pattern.strip_prefix('*') {
        Some(end) => name.ends_with(end),
        None => name == *pattern,
    };
    NAMED.iter().find(|(_, looks, names)| names.iter().any(is_it) && looks.fits(value)).map(|(why, ..)| *why)
}

/// A field of one operator's API.
#[derive(Debug, Clone, Copy)]
pub struct Field {
    group: &'static str,
    kind: &'static str,
    /// From the object's root, with dots; items of a list have no key.
    pub path: &'static str,
    pub what: What,
}

/// What is said of a field by its path.
#[derive(Debug, Clone, Copy)]
pub enum What {
    /// It stays with the provider.
    Kept(Why),
    /// It stays with the provider, and the operator needs it although its schema does not say so: what `init` writes.
    Written(Why, &'static str),
    /// It is offered although its name speaks against it, and so are programs and their environment below it; why, as a
    /// main clause.
    Offered(&'static str),
}

/// A field that stays with the provider.
pub const fn kept(group: &'static str, kind: &'static str, path: &'static str, why: Why) -> Field {
    Field { group, kind, path, what: What::Kept(why) }
}

/// Some fields of some kinds, as `operators.yaml` has them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    kinds: Vec<&'static str>,
    paths: Vec<&'static str>,
    why: Option<Why>,
    write: Option<&'static str>,
    offered: Option<&'static str>,
}

/// What is said of the operators of an API group.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "'de: 'static"))]
struct Group {
    #[serde(default)]
    fields: Vec<Row>,
    /// What `init` alone needs.
    #[serde(default, rename = "kinds")]
    _kinds: IgnoredAny,
}

/// What is known of operators, by API group: `operators.yaml`.
pub static OPERATORS: LazyLock<Json> = LazyLock::new(|| {
    let document = yaml::parse_one(include_str!("../../operators.yaml"));
    document.and_then(|document| document.root).map(|root| root.to_json()).unwrap_or_default()
});

static FIELDS: LazyLock<Vec<Field>> = LazyLock::new(|| {
    let groups =
        BTreeMap::<&str, Group>::deserialize(&*OPERATORS).unwrap_or_else(|error| panic!("operators.yaml: {error}"));
    let mut fields = Vec::new();
    for (group, Row { kinds, paths, why, write, offered }) in
        groups.into_iter().flat_map(|(group, of)| of.fields.into_iter().map(move |row| (group, row)))
    {
        let what = match (why, write, offered) {
            (Some(why), None, None) => What::Kept(why),
            (Some(why), Some(value), None) => What::Written(why, value),
            (None, None, Some(why)) => What::Offered(why),
            _ => panic!("operators.yaml: {paths:?} of {group} have `why`, with or without `write`, or `offered`"),
        };
        for kind in kinds {
            fields.extend(paths.iter().map(|path| Field { group, kind, path, what }));
        }
    }
    fields
});

/// What a field means by its name, unless its path says otherwise. `fields`: what is said of the fields of its kind.
pub fn meaning<'f>(fields: impl IntoIterator<Item = &'f Field>, path: &str, value: &Value<'_>) -> Option<Why> {
    let name = path.rsplit('.').next().unwrap_or_default();
    let why = named(name, value)?;
    let is_below = |field: &Field| path.strip_prefix(field.path).is_some_and(|rest| rest.starts_with('.'));
    let is_offered = |field: &Field| {
        matches!(field.what, What::Offered(_))
            && (field.path == path || is_below(field) && matches!(why, Why::Program | Why::Environment))
    };
    (!fields.into_iter().any(is_offered)).then_some(why)
}

/// What is said of the fields of a kind.
pub fn fields(group: &str, kind: &str) -> impl Iterator<Item = &'static Field> {
    FIELDS.iter().filter(move |field| field.group == group && field.kind == kind)
}

/// Whether any text stands under a key of this name, whatever its own names. A part of an API that is called `data` has fields
/// of its own.
pub fn holds_free_text(name: &str, has_fields: bool) -> bool {
    match name {
        "annotations" | "labels" => true,
        "binaryData" | "data" | "stringData" => !has_fields,
        _ => false,
    }
}
