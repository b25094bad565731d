//! What `init` knows of operators beside the fields of their objects: `operators.yaml`, from their documentation and source.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::mapping::check::reserved::{self, Field, What, Why, kept};

/// What is known of the operator of one kind.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Operator {
    #[serde(skip)]
    group: String,
    #[serde(skip)]
    kind: String,
    #[serde(default)]
    pub labels: Vec<Label>,
    #[serde(default)]
    pub secrets: Vec<Secret>,
    #[serde(default)]
    pub given: Given,
    /// Objects that the operator needs beside its own: entries of `objects`.
    #[serde(default)]
    pub objects: String,
    /// The same where the provider has to decide something: they are written as a comment.
    #[serde(default)]
    pub sketch: String,
    /// Fields that consumers do not get because of how the mapping is made, and why, as a main clause. What no mapping should
    /// let them fill is in [`reserved`](crate::mapping::check::reserved), where `validate` looks too.
    #[serde(default)]
    withheld: BTreeMap<String, String>,
    /// How many characters of an object's name it takes, where that are fewer than a server does.
    #[serde(rename = "longestName")]
    pub longest_name: Option<u64>,
    /// What the example shows of an object beside what its schema requires.
    #[serde(default)]
    pub example: Map<String, Value>,
    /// What the operator needs beside its object and the mapping does not make: main clauses without an end.
    #[serde(default)]
    pub needs: Vec<String>,
    /// What the operator writes into `status` where all is well.
    #[serde(default)]
    pub status: Map<String, Value>,
    pub ready: Option<Ready>,
}

/// A label of the consumer's object that the operator reads.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Label {
    pub key: String,
    /// A value for the example.
    pub sample: String,
    /// Whether the operator ignores an object without it.
    #[serde(default = "yes")]
    pub required: bool,
    /// What it holds.
    pub holds: String,
    pub documentation: String,
}

fn yes() -> bool {
    true
}

/// A Secret that the operator makes for an object.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Secret {
    /// Of the entry of `related`, and the ending of the copy's name.
    pub id: String,
    /// A template.
    pub name: String,
    /// Where there is one for each item of a list.
    pub each: Option<Items>,
    pub keys: Vec<String>,
    pub documentation: String,
}

/// Secrets that consumers name, and the operator reads beside its object.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Given {
    /// Fields with their names. Items of a list by `[]`.
    pub paths: Vec<String>,
    /// Fields with names of Secrets that the operator makes.
    #[serde(default)]
    pub made: Vec<String>,
    /// How names of Secrets end that it makes without being told: a regular expression.
    pub own: Option<String>,
    /// What those of the example hold.
    #[serde(default)]
    pub keys: Vec<String>,
}

/// A list, and the key of an item, which is called `item`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Items {
    list: String,
    key: String,
}

/// Where the status says that all is well.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum Ready {
    Condition {
        condition: String,
        /// The type of a condition that is `True` while all is not well, and says why.
        otherwise: Option<String>,
    },
    Field {
        /// Keys below `status`, with dots.
        field: String,
        /// A field with an explanation.
        message: Option<String>,
    },
}

/// What is said of the operators of an API group.
#[derive(Deserialize)]
struct Group {
    #[serde(default)]
    kinds: BTreeMap<String, Operator>,
}

#[expect(clippy::expect_used, reason = "the table is a part of the program, and a test reads it")]
static OPERATORS: LazyLock<Vec<Operator>> = LazyLock::new(|| {
    let groups = BTreeMap::<String, Group>::deserialize(&*reserved::OPERATORS).expect("a table of operators");
    let of_group = |(group, Group { kinds }): (String, Group)| {
        kinds.into_iter().map(move |(kind, operator)| Operator { group: group.clone(), kind, ..operator })
    };
    groups.into_iter().flat_map(of_group).collect()
});

/// What is known of the operator of a kind.
pub fn operator(group: &str, kind: &str) -> Option<&'static Operator> {
    OPERATORS.iter().find(|operator| operator.group == group && operator.kind == kind)
}

/// Where an object of Crossplane's names the Secret that it wants to have made.
const CONNECTION_FIELD: &str = "spec.writeConnectionSecretToRef";

/// That Secret; its keys are the composition's.
static CONNECTION: LazyLock<Secret> = LazyLock::new(|| Secret {
    id: "connection".to_owned(),
    name: "{{ placement.name }}-connection".to_owned(),
    each: None,
    keys: Vec::new(),
    documentation: "https://docs.crossplane.io/v1.20/concepts/connection-details/".to_owned(),
});

/// The field, if a schema has it: a name of the consumer's would have any Secret beside the object copied back.
pub fn connection_field(schema: &Value) -> Option<Field> {
    let keys = schema.pointer("/properties/spec/properties/writeConnectionSecretToRef/properties")?.as_object()?;
    let why =
        Why::Reserved("the mapping copies the Secret with the connection to the consumer, under a name of its own");
    let mut field = kept("", "", CONNECTION_FIELD, why);
    field.what = What::Written(why, r#"${{ {"name": placement.name ~ "-connection"} }}"#);
    (keys.len() == 1 && keys.contains_key("name")).then_some(field)
}

/// The Secret, where these fields have it.
pub fn connection(fields: &[Field]) -> Option<&'static Secret> {
    fields.iter().any(|field| field.path == CONNECTION_FIELD).then(|| &*CONNECTION)
}

impl Operator {
    /// The ids of the objects that it needs beside its own.
    pub fn object_ids(&self) -> impl Iterator<Item = &str> {
        self.objects.lines().filter_map(|line| line.strip_prefix("- id: "))
    }

    pub fn withheld(&'static self) -> impl Iterator<Item = Field> {
        self.withheld.iter().map(|(path, why)| kept(&self.group, &self.kind, path, Why::Reserved(why)))
    }
}

impl Label {
    /// What the mapping writes: the consumer's own.
    pub fn value(&self) -> String {
        let read = format!("source.metadata.labels[\"{}\"]", self.key);
        if self.required {
            format!("${{{{ {read} | required(\"the label {} must hold {}\") }}}}", self.key, self.holds)
        } else {
            format!("${{{{ {read} | default(omit) }}}}")
        }
    }
}

impl Secret {
    /// The entry of `related` that carries it to the consumer. Ends with a line break.
    pub fn related(&self) -> String {
        let Self { id, name, .. } = self;
        let mut text = format!("- id: {id}\n  direction: ToSource\n  resource: secrets.v1\n");
        let mut copy = format!("{{{{ source.metadata.name }}}}-{id}");
        if let Some(Items { list, key }) = &self.each {
            text.push_str(&format!("  forEach: {list}\n  as: item\n  key: {key}\n"));
            copy.push_str("-{{ item.name }}");
        }
        text.push_str(&format!("  from: {{name: \"{name}\"}}\n  to: {{name: \"{copy}\"}}\n"));
        if !self.keys.is_empty() {
            text.push_str(&format!("  data: {{include: [{}]}}\n", self.keys.join(", ")));
        }
        text.push_str("  ownerReference: true\n  onMissing: Skip\n");
        text
    }
}

#[cfg(test)]
mod tests {
    use super::super::given::copy;
    use super::*;
    use crate::mapping::compile::compile;
    use crate::yaml;

    /// What is written of an operator is a part of a mapping that compiles.
    #[test]
    fn what_operators_need_compiles() {
        for operator in OPERATORS.iter() {
            let paths: Vec<&str> = operator.given.paths.iter().map(String::as_str).collect();
            let given = (!paths.is_empty()).then(|| copy(&paths, operator.given.own.as_deref()));
            let related: String = operator.secrets.iter().map(Secret::related).chain(given).collect();
            let objects = format!("{}{}", operator.objects, operator.sketch.replace("API_VERSION", "example.com/v1"));
            let mapping = format!(
                "apiVersion: sync-engine.dev/v1alpha1\nkind: Mapping\nmetadata: {{name: x}}\nspec:\n  source: {{apiExport: {{name: \
                 x}}, resource: xs.v1.example.com}}\n  related:\n    {}\n  objects:\n    {}\n    - {{id: x, template: {{apiVersion: \
                 v1, kind: ConfigMap}}}}\n",
                related.replace('\n', "\n    "),
                objects.replace('\n', "\n    ")
            );
            let document = yaml::parse_one(&mapping).expect("a document");
            assert_eq!(compile(&document).findings, [], "{mapping}");
            let fits = operator.longest_name.is_some_and(|most| most <= 63);
            assert!(fits || !operator.sketch.contains("labels:"), "{}: a name is no label", operator.kind);
        }
    }

    /// Where a kind is said to be ready, its status says so.
    #[test]
    fn each_operator_reports_what_its_readiness_reads() {
        for operator in OPERATORS.iter() {
            let status = Value::Object(operator.status.clone());
            let reports = match &operator.ready {
                None => continue,
                Some(Ready::Field { field, .. }) => status.pointer(&format!("/{}", field.replace('.', "/"))).is_some(),
                Some(Ready::Condition { condition, .. }) => status["conditions"]
                    .as_array()
                    .is_some_and(|all| all.iter().any(|one| one["type"] == **condition && one["status"] == "True")),
            };
            assert!(reports, "{} {}", operator.group, operator.kind);
        }
    }
}
