//! Random sequences: requests of several writers to a few objects, whose answers must be the same on the sandbox and on a
//! real server. A sequence that tells them apart is shrunk to the smallest that does, and kept as a fixed case.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};
use serde_json::{Map, Value, json};
use tokio::runtime::Runtime;

use crate::compare::{Difference, compare};
use crate::script::{self, Case, Step};
use crate::stage::{InMemory, Ready};

const SEQUENCES: u32 = 64;
const LONGEST: usize = 12;

/// The same sequences in every run.
const SEED: [u8; 32] = *b"the same sequences in every run.";

/// Plays random sequences on both; gives their number, or the smallest one that tells the servers apart.
pub fn run(runtime: &Runtime, ours: &InMemory, theirs: &Ready) -> Result<u32, String> {
    let sequences = env::var("SYNC_ENGINE_SEQUENCES").ok().and_then(|number| number.parse().ok()).unwrap_or(SEQUENCES);
    let config = Config { cases: sequences, failure_persistence: None, max_shrink_iters: 400, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &SEED));
    let played = AtomicUsize::new(0);
    let outcome = runner.run(&prop::collection::vec(step(), 1..LONGEST), |steps| {
        // Each sequence, and each attempt to shrink one, has a namespace of its own.
        let name = format!("random::{}", played.fetch_add(1, Ordering::Relaxed));
        let differences =
            runtime.block_on(differences(&Case { name, on: Vec::new(), admission: Vec::new(), steps }, ours, theirs));
        match differences.first() {
            None => Ok(()),
            Some(first) => Err(TestCaseError::fail(first.to_string())),
        }
    });
    match outcome {
        Ok(()) => Ok(sequences),
        Err(TestError::Fail(reason, steps)) => Err(format!("{reason}\nkept as {}", keep(&steps).display())),
        Err(TestError::Abort(reason)) => Err(reason.to_string()),
    }
}

async fn differences(case: &Case, ours: &InMemory, theirs: &Ready) -> Vec<Difference> {
    let (ours, theirs) = tokio::join!(ours.ready.play(case), theirs.play(case));
    compare(&ours, &theirs)
}

/// Writes a sequence as a fixed case, and tells where.
fn keep(steps: &[Step]) -> PathBuf {
    let printed = |step: &Step| json!({"send": step.send, "body": step.body, "keep": step.keep});
    let lines: Vec<String> = steps.iter().map(|step| format!("  - {}\n", printed(step))).collect();
    let number = (1..).find(|number| !file(*number).exists()).expect("numbers do not end");
    let text = format!("# Found by random sequences.\ncase: found\non: [kubernetes]\nsteps:\n{}", lines.concat());
    fs::write(file(number), text).expect("the case's file");
    file(number)
}

fn file(number: usize) -> PathBuf {
    script::folder().join(format!("cases/found-{number}.yaml"))
}

/// An object that sequences are about.
#[derive(Clone, Copy, Debug)]
enum Object {
    Map,
    Widget(&'static str),
}

impl Object {
    fn url(self) -> String {
        match self {
            Object::Map => "{cm}/a".to_owned(),
            Object::Widget(name) => format!("{{widgets}}/{name}"),
        }
    }

    fn collection(self) -> &'static str {
        match self {
            Object::Map => "{cm}",
            Object::Widget(_) => "{widgets}",
        }
    }

    fn version(self) -> &'static str {
        match self {
            Object::Map => "version-map",
            Object::Widget("one") => "version-one",
            Object::Widget(_) => "version-two",
        }
    }

    /// A whole object with the given parts.
    fn with(self, metadata: Value, content: Value) -> Value {
        let (api_version, kind, name) = match self {
            Object::Map => ("v1", "ConfigMap", "a"),
            Object::Widget(name) => ("conformance.test/v1", "Widget", name),
        };
        let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": metadata});
        object["metadata"]["name"] = name.into();
        json_merge(&mut object, content);
        object
    }
}

fn json_merge(object: &mut Value, content: Value) {
    let (Value::Object(object), Value::Object(content)) = (object, content) else { return };
    object.extend(content);
}

fn step() -> impl Strategy<Value = Step> {
    let object = select(vec![Object::Map, Object::Widget("one"), Object::Widget("one"), Object::Widget("two")]);
    object.prop_flat_map(|object| {
        prop_oneof![
            4 => create(object),
            8 => apply(object),
            5 => merge(object),
            3 => update(object),
            3 => json_patch(object),
            4 => status(object),
            3 => delete(object),
            2 => Just(request("GET", object.url(), None)),
        ]
    })
}

fn create(object: Object) -> BoxedStrategy<Step> {
    let whole = (metadata(), content(object)).prop_map(move |(metadata, content)| object.with(metadata, content));
    whole.prop_map(move |body| kept(object, request("POST", object.collection().into(), Some(body)))).boxed()
}

fn apply(object: Object) -> BoxedStrategy<Step> {
    (manager(), any::<bool>(), metadata(), content(object))
        .prop_map(move |(manager, force, metadata, content)| {
            let url = format!("{}?fieldManager={manager}&force={force}", object.url());
            kept(object, request("APPLY", url, Some(object.with(metadata, content))))
        })
        .boxed()
}

fn merge(object: Object) -> BoxedStrategy<Step> {
    (manager(), metadata(), content(object))
        .prop_map(move |(manager, metadata, mut body)| {
            body["metadata"] = metadata;
            kept(object, request("MERGE", format!("{}?fieldManager={manager}", object.url()), Some(body)))
        })
        .boxed()
}

fn update(object: Object) -> BoxedStrategy<Step> {
    (manager(), metadata(), content(object))
        .prop_map(move |(manager, mut metadata, content)| {
            metadata["resourceVersion"] = format!("{{{}}}", object.version()).into();
            let body = object.with(metadata, content);
            kept(object, request("PUT", format!("{}?fieldManager={manager}", object.url()), Some(body)))
        })
        .boxed()
}

fn json_patch(object: Object) -> BoxedStrategy<Step> {
    let paths = match object {
        Object::Map => vec!["/data/a", "/data/b", "/data", "/metadata/labels/x", "/metadata/labels"],
        Object::Widget(_) => {
            vec!["/spec/mode", "/spec/size", "/spec/list", "/spec/users/0", "/spec/labels/x", "/spec/free"]
        }
    };
    (select(paths), select(vec!["add", "replace", "remove", "test"]))
        .prop_map(move |(path, operation)| {
            let value = match path.rsplit('/').next() {
                Some("size") => json!(5),
                Some("list") => json!([9]),
                Some("0") => json!({"name": "zero"}),
                Some("labels" | "data" | "free") => json!({"y": "9"}),
                Some("mode") => json!("Slow"),
                _ => json!("9"),
            };
            let body = json!([{"op": operation, "path": path, "value": value}]);
            kept(object, request("JSON", object.url(), Some(body)))
        })
        .boxed()
}

fn status(object: Object) -> BoxedStrategy<Step> {
    let Object::Widget(_) = object else { return merge(object) };
    let conditions = subsequence(vec!["Ready", "Synced"], 0..=2)
        .prop_map(|types| types.into_iter().map(|kind| json!({"type": kind, "status": "True"})).collect::<Vec<_>>());
    (manager(), any::<bool>(), select(vec!["New", "Old"]), conditions)
        .prop_map(move |(manager, is_apply, phase, conditions)| {
            let url = format!("{}/status?fieldManager={manager}", object.url());
            let content = json!({"status": {"phase": phase, "conditions": conditions}});
            let (word, body) = if is_apply { ("APPLY", object.with(json!({}), content)) } else { ("MERGE", content) };
            kept(object, request(word, url, Some(body)))
        })
        .boxed()
}

fn delete(object: Object) -> BoxedStrategy<Step> {
    Just(request("DELETE", object.url(), Some(json!({"propagationPolicy": "Background"})))).boxed()
}

fn manager() -> impl Strategy<Value = &'static str> {
    select(vec!["one", "two"])
}

/// Labels, annotations and finalizers, each in one of a few states.
fn metadata() -> impl Strategy<Value = Value> {
    let labels = prop_oneof![
        3 => Just(None),
        1 => Just(Some(json!({}))),
        2 => Just(Some(json!({"x": "1"}))),
        2 => Just(Some(json!({"x": "2", "y": "1"}))),
    ];
    let finalizers = prop_oneof![
        6 => Just(None),
        1 => Just(Some(json!([]))),
        1 => Just(Some(json!(["a.test/x"]))),
        1 => Just(Some(json!(["a.test/y", "a.test/x"]))),
    ];
    (labels, finalizers).prop_map(|(labels, finalizers)| {
        let fields = [("labels", labels), ("finalizers", finalizers)];
        fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect::<Map<_, _>>().into()
    })
}

fn content(object: Object) -> BoxedStrategy<Value> {
    match object {
        Object::Map => parts(vec![("a", json!("1")), ("a", json!("2")), ("b", json!("1")), ("c", json!("1"))])
            .prop_map(|data| json!({"data": data}))
            .boxed(),
        Object::Widget(_) => parts(vec![
            ("size", json!(1)),
            ("size", json!(2)),
            ("mode", json!("Slow")),
            ("note", Value::Null),
            ("list", json!([1, 2])),
            ("list", json!([])),
            ("tags", json!(["p", "q"])),
            ("tags", json!(["q", "r"])),
            ("users", json!([{"name": "x"}, {"name": "y", "role": "admin"}])),
            ("users", json!([{"name": "y", "rights": ["r"]}, {"name": "x", "role": "writer"}])),
            ("ports", json!([{"number": 80}])),
            ("ports", json!([{"number": 80, "protocol": "UDP"}, {"number": 80, "text": "t"}])),
            ("labels", json!({"x": "1"})),
            ("labels", json!({})),
            ("reference", json!({"name": "n"})),
            ("reference", json!({"name": "m", "kind": "k"})),
            ("free", json!({"a": {"b": 1}})),
            ("free", json!({"a": {"c": [1]}, "d": {}})),
            ("nested", json!({})),
        ])
        .prop_map(|mut spec| {
            // Without it nothing is ever accepted.
            spec.entry("size").or_insert(json!(3));
            json!({"spec": spec})
        })
        .boxed(),
    }
}

/// Some of the fields; of those of one name the last.
fn parts(fields: Vec<(&'static str, Value)>) -> impl Strategy<Value = Map<String, Value>> {
    let most = fields.len().min(4);
    subsequence(fields, 0..=most)
        .prop_map(|fields| fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

fn request(method: &str, url: String, body: Option<Value>) -> Step {
    Step { body, ..Step::new(&format!("{method} {url}")) }
}

/// The object's version is known to later updates.
fn kept(object: Object, mut step: Step) -> Step {
    step.keep.insert(object.version().to_owned(), "/metadata/resourceVersion".to_owned());
    step
}
