//! One case: a source, what is around it, and what must come of it.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};

use super::Bench;
use super::problem::Problem;
use crate::cli::difference::difference;
use crate::cli::{Misconfigured, inputs, render, sources};
use crate::mapping::Mapping;
use crate::mapping::compile::observed_template;
use crate::mapping::document::TestCaseSpec;
use crate::mapping::expression::Recorder;
use crate::mapping::jsonpath::JsonPath;
use crate::mapping::schema::Schemas;
use crate::object::ClusterName;
use crate::object::compare::same;
use crate::plan::preview::{At, Preview, Scene, Unseen, recorded};
use crate::plan::{self, Cause, Reason};
use crate::reload::scan;
use crate::yaml::{Entries, Raw};

/// Problems of the case; none where it passes. Golden files to write are added to `goldens`.
///
/// # Errors
/// When what the case gives, or a file that it names, cannot be used.
pub(super) fn run(
    bench: &Bench,
    mapping: &Mapping,
    recorder: &Recorder,
    folder: &Path,
    case: &TestCaseSpec,
    goldens: &mut BTreeMap<PathBuf, String>,
) -> Result<Vec<Problem>, Misconfigured> {
    let (scene, own) = scene(bench, mapping, folder, case)?;
    let preview = match (recorded(mapping, &scene, recorder), case.left_alone) {
        (Err(Unseen::Out), true) => return Ok(nothing_else(case)),
        (Err(Unseen::Out), false) => return Ok(vec![Problem::said("the mapping's filter leaves the source alone")]),
        (Err(Unseen::Unrendered(reason)), _) => return Ok(vec![because(&reason)]),
        (Ok(_), true) => return Ok(vec![Problem::said("the mapping's filter lets the source in")]),
        (Ok(preview), false) => preview,
    };
    let strangers = preview.strangers.iter().filter_map(|position| scene.standing.get(*position));
    let stranger = |object| {
        let title = sources::title(object);
        let hint = if sources::reads(mapping, object) { "; what is copied or read belongs to `related`" } else { "" };
        Problem::said(format!("observed: {title} stands for no object of the mapping{hint}"))
    };
    let mut problems: Vec<_> = strangers.map(stranger).collect();
    let unread = scene.related.iter().take(own).filter(|object| preview.is_unread(object));
    problems.extend(
        unread.map(|object| Problem::said(format!("related: nothing of the mapping reads {}", sources::title(object)))),
    );
    // What the target's API server would refuse.
    let checked = preview.objects().map(|(.., desired)| sources::check_rendered(&desired.body, bench.schemas));
    problems.extend(checked.filter_map(Result::err).map(|why| Problem::said(why.0)));
    let place = &preview.rendering().place;
    let mut rendered = objects(&preview);
    rendered["placement"] = json!({
        "namespace": place.namespace, "name": place.name, "namespaceLabels": preview.namespace_labels,
    });
    let status = preview.status.clone().unwrap_or(Value::Null);
    let before = problems.len();
    let known = Known { mapping, schemas: bench.schemas };
    problems.extend(unmet(&case.expect, &rendered, "", |path| known.object(path)));
    problems.extend(unmet(&case.expect_status, &status, "status.", |path| known.status(path)));
    problems.extend(waits(mapping, case, &rendered, &preview));
    // What is only half rendered is no golden, neither to be compared with nor to be written; what fails is not blessed.
    if !preview.failed() && (!bench.update || problems.is_empty()) {
        let documents = render::documents(&preview, &scene, false, true);
        problems.extend(golden(bench, folder, case, &render::written(&documents), goldens)?);
    }
    // Why something is not there helps where it was expected; by itself it may be what the case shows.
    let expects_parts = !case.expect.0.is_empty() || !case.expect_status.0.is_empty();
    let fails = preview.failed() && (case.golden.is_some() || !expects_parts);
    if problems.len() > before || fails {
        problems.extend(preview.reasons.0.iter().map(because));
    }
    Ok(problems)
}

/// A case whose first object only waits shows nothing of the mapping, unless that is what it expects.
fn waits(mapping: &Mapping, case: &TestCaseSpec, rendered: &Value, preview: &Preview) -> Option<Problem> {
    let rule = mapping.objects.iter().find(|rule| !rule.shared && rule.copy.is_none())?;
    let id = &rule.id;
    let is_there = !rendered["objects"][id].is_null() || rendered["targets"].is_object();
    let expected = |path: &str| path.split(['.', '[']).take(2).eq(["objects", id.as_str()]);
    let waiting = preview.reasons.0.iter().any(|reason| matches!(reason.cause, Cause::Waiting | Cause::Unknown));
    (waiting && !is_there && !case.expect.0.iter().any(|(path, _)| expected(&path.value))).then(|| {
        Problem::said(format!(
            "`objects.{id}` only waits: add what it waits for to `related` or `observed`, or expect `objects.{id}: null`"
        ))
    })
}

/// What can be there at all, to tell what is absent from what is misspelt.
struct Known<'a> {
    mapping: &'a Mapping,
    schemas: &'a Schemas,
}

impl Known<'_> {
    fn object(&self, path: &[&str]) -> bool {
        match path {
            ["placement"] | ["placement", "namespace" | "name"] | ["placement", "namespaceLabels", ..] => true,
            ["targets"] | ["targets", _] | ["targets", _, "cluster"] | ["objects"] => true,
            ["targets", _, rest @ ..] => self.object(rest),
            ["objects", id, below @ ..] => {
                let Some(rule) = self.mapping.rule(id) else { return false };
                let below = if rule.is_several() { below.get(1..).unwrap_or_default() } else { below };
                let schema = self.schemas.kind(&rule.kind);
                schema.is_none_or(|schema| schema.has_path(below) != Some(false))
            }
            _ => false,
        }
    }

    fn status(&self, path: &[&str]) -> bool {
        let schema = self.schemas.resource(&self.mapping.source.resource);
        let path: Vec<_> = std::iter::once("status").chain(path.iter().copied()).collect();
        schema.is_none_or(|schema| schema.has_path(&path) != Some(false))
    }
}

fn because(reason: &Reason) -> Problem {
    Problem::said(reason.to_string())
}

/// Of a source that is left alone, there is nothing to be expected.
fn nothing_else(case: &TestCaseSpec) -> Vec<Problem> {
    let expects = !case.expect.0.is_empty() || !case.expect_status.0.is_empty() || case.golden.is_some();
    let problem = "leftAlone: nothing else can be expected of a source that is left alone";
    expects.then(|| Problem::said(problem)).into_iter().collect()
}

/// What the case gives, and how many of the related objects are its own: the others are beside its source.
fn scene(
    bench: &Bench,
    mapping: &Mapping,
    folder: &Path,
    case: &TestCaseSpec,
) -> Result<(Scene, usize), Misconfigured> {
    let given_together = given(folder, &case.source)?;
    let source = one_of(bench, mapping, &given_together)?;
    sources::check_fields(&source, bench.schemas.resource(&mapping.source.resource))?;
    let is_beside = |object: &Value| *object != source && sources::reads(mapping, object);
    let beside: Vec<_> = given_together.into_iter().filter(is_beside).collect();
    let mut scene = sources::scene(source, mapping, bench.schemas)?;
    if let Some(workspace) = &case.workspace {
        scene.cluster = ClusterName::try_from(workspace.cluster.as_str())
            .map_err(|error| Misconfigured(format!("workspace.cluster: {error}")))?;
        scene.workspace_path = workspace.path.clone();
    }
    let around = |field: &str, raws: &[Raw]| -> Result<Vec<Value>, Misconfigured> {
        let objects = around(mapping, folder, (field, raws), &scene)?;
        sources::check_written(&objects, bench.schemas)?;
        Ok(objects)
    };
    let (related, standing) = (around("related", &case.related)?, around("observed", &case.observed)?);
    related.iter().try_for_each(whole)?;
    related.iter().chain(&beside).try_for_each(sources::check_bytes)?;
    let own = related.len();
    scene.related = related.into_iter().chain(beside).map(Arc::new).collect();
    scene.standing = standing;
    Ok((scene, own))
}

/// The objects around a source: of files, or templates that read the source and its placement.
fn around(
    mapping: &Mapping,
    folder: &Path,
    (field, raws): (&str, &[Raw]),
    scene: &Scene,
) -> Result<Vec<Value>, Misconfigured> {
    let scope = plan::render::placed_scope(mapping, &scene.observed(mapping), &scene.source);
    let rendered = |raw: &Raw| match raw.0.as_str() {
        Some(_) => given(folder, raw),
        None => match observed_template(raw, &mut Vec::new()).map(|template| template.render(&scope)) {
            Some(Ok(object)) => Ok(vec![object]),
            Some(Err(why)) => Err(Misconfigured(format!("{field}: {why}"))),
            None => Err(Misconfigured(format!("{field}: it does not compile"))),
        },
    };
    Ok(raws.iter().map(rendered).collect::<Result<Vec<_>, _>>()?.concat())
}

/// The file that a test names. It is below the test's folder, its links resolved: a test reads and writes nothing else.
fn below(folder: &Path, name: &str) -> Result<PathBuf, Misconfigured> {
    let path = folder.join(name);
    let outside = || Misconfigured(format!("`{name}` is not below the folder of the test: a test uses no other files"));
    if Path::new(name).components().any(|part| !matches!(part, Component::Normal(_) | Component::CurDir)) {
        return Err(outside());
    }
    let here = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let root = std::fs::canonicalize(here).map_err(|error| Misconfigured(format!("{}: {error}", here.display())))?;
    // What does not exist yet will be where its folder is.
    let existing = path.ancestors().find(|path| std::fs::symlink_metadata(path).is_ok()).unwrap_or(here);
    match scan::within(&root, existing) {
        Ok(true) => Ok(path),
        Ok(false) | Err(_) => Err(outside()),
    }
}

/// The objects of a field: inline, or of the file whose path it holds.
fn given(folder: &Path, raw: &Raw) -> Result<Vec<Value>, Misconfigured> {
    match raw.0.as_str() {
        Some(path) => sources::objects(&below(folder, path)?),
        None => {
            let object = raw.0.to_json();
            whole(&object)?;
            Ok(vec![object])
        }
    }
}

fn whole(object: &Value) -> Result<(), Misconfigured> {
    if sources::is_object(object) {
        return Ok(());
    }
    let title = sources::title(object);
    Err(Misconfigured(format!("{title} lacks `apiVersion`, `kind` or `metadata`, which every object has")))
}

/// The one object among them that the mapping takes.
fn one_of(bench: &Bench, mapping: &Mapping, all: &[Value]) -> Result<Value, Misconfigured> {
    let mut taken = all.iter().filter(|object| sources::takes(mapping, bench.schemas, object));
    match (taken.next(), taken.next()) {
        (Some(source), None) => Ok(source.clone()),
        _ => Err(Misconfigured(format!("its source must be one of {}", mapping.source.resource))),
    }
}

/// The rendered objects by their ids, several of one id by their keys. Where a source names its targets, by the keys of the
/// targets too; `objects` alone is the first target's then.
fn objects(preview: &Preview) -> Value {
    let mut rendered = json!({"objects": {}});
    let mut first = None;
    for (at, rule, key, desired) in preview.objects() {
        let put = |into: &mut Value| match key {
            Some(key) => into[&rule.id][key] = Value::clone(&desired.body),
            None => into[&rule.id] = Value::clone(&desired.body),
        };
        if let At::Target { key, name } = at {
            rendered["targets"][key]["cluster"] = name.as_str().into();
            put(&mut rendered["targets"][key]["objects"]);
        }
        if first.get_or_insert(at) == &at {
            put(&mut rendered["objects"]);
        }
    }
    rendered
}

/// Expectations that do not hold. Null stands for what is not there, and could be.
fn unmet(expected: &Entries<Raw>, actual: &Value, prefix: &str, is_known: impl Fn(&[&str]) -> bool) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (path, raw) in &expected.0 {
        let wanted = raw.0.to_json();
        let said = |why: &str| Problem::said(format!("{prefix}{}: {why}", path.value));
        match rooted(&path.value).map(|path| (found(&path, actual), path)) {
            Err(why) => problems.push(said(&why)),
            Ok((Value::Null, names)) if names.names().is_some_and(|names| !is_known(&names)) => {
                problems.push(match wanted.is_null() {
                    true => said("there is no such field: it would always be null"),
                    false => Problem::unknown(format!("{prefix}{}", path.value), wanted),
                });
            }
            Ok((found, _)) if same(&found, &wanted) => {}
            Ok((found, _)) => problems.push(Problem::unmet(format!("{prefix}{}", path.value), wanted, found)),
        }
    }
    problems
}

fn rooted(path: &str) -> Result<JsonPath, String> {
    let rooted = if path.starts_with(['$', '.', '{', '[']) { path.to_owned() } else { format!(".{path}") };
    JsonPath::parse(&rooted).map_err(|error| format!("not a path: {error}"))
}

/// What stands at a path: several matches are a list, none is null.
fn found(path: &JsonPath, actual: &Value) -> Value {
    match &path.select(actual)[..] {
        [] => Value::Null,
        [one] => (*one).clone(),
        several => several.iter().map(|value| (*value).clone()).collect(),
    }
}

/// Compares with the case's golden file; with `--update`, notes it for writing instead, also where it stands: another
/// case, of this test or another, may be about to write something else.
fn golden(
    bench: &Bench,
    folder: &Path,
    case: &TestCaseSpec,
    rendered: &str,
    goldens: &mut BTreeMap<PathBuf, String>,
) -> Result<Option<Problem>, Misconfigured> {
    let Some(name) = &case.golden else { return Ok(None) };
    let path = below(folder, name)?;
    if bench.update {
        let first = goldens.entry(path).or_insert_with(|| rendered.to_owned());
        let problem = || format!("golden {name}: another case writes something else to it");
        return Ok((*first != *rendered).then(|| Problem::said(problem())));
    }
    let standing = if path.exists() { Some(inputs::file(&path)?) } else { None };
    Ok(match standing {
        None => Some(Problem::said(format!("golden {name} does not exist; write it with --update"))),
        Some(content) if content == rendered.as_bytes() => None,
        Some(content) => {
            let difference = difference(&String::from_utf8_lossy(&content), rendered);
            Some(Problem::golden(name, path.display().to_string(), difference))
        }
    })
}
