//! Document → [`Mapping`]: the only way from what was written to what runs, with every finding at once.

mod dependencies;
mod for_each;
mod names;
mod object;
mod provider;
mod related;
mod source;
mod status;
mod targets;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;

use super::check::owner_of;
use super::diagnostic::Finding;
use super::document::{
    API_VERSION, ApiSchemaDocument, ClusterProviderDocument, LifecycleSpec, MappingDocument, MappingSpec,
    MappingTestDocument, Period, ReconcileSpec, ReleaseSpec, WaveSpec, required_fields,
};
use super::expression::{Names, References, RootSet};
use super::schema;
use super::template::Template;
use super::{
    ClusterProvider, Constants, Mapping, MaxLost, Members, OWN_CLUSTER, Reconcile, Release, Side, SourceRecreated, Wave,
};
use crate::yaml::{self, Entries, Node, NodeValue, Raw, Scalar, Spanned, Typed, from_node, meant};

pub(crate) use names::is_version;
pub use names::{MAX_MAPPING_NAME, parse_resource};
pub use status::overlap;

/// How long a wave may stand by default without fewer sources out of order.
const PROGRESS_DEADLINE: Duration = Duration::from_secs(900);

/// The kinds of document.
pub const KINDS: [&str; 4] = ["Mapping", "ClusterProvider", "MappingTest", "ApiSchema"];

/// What a document is once it is compiled.
#[derive(Debug, Clone)]
pub enum Compiled {
    Mapping(Arc<Mapping>),
    ClusterProvider(ClusterProvider),
    /// A document for authors, which the engine ignores: a test, or an API in short.
    ForAuthors,
}

/// What became of a document: something that runs, or findings that say why not.
#[derive(Debug)]
pub struct Outcome {
    /// `None` where one of the findings is an error.
    pub compiled: Option<Compiled>,
    pub findings: Vec<Finding>,
}

/// Compiles a document.
pub fn compile(document: &yaml::Document) -> Outcome {
    compile_unless(document, super::diagnostic::is_error)
}

/// Compiles a document; a finding of a code that `forbids` it has it not run.
fn compile_unless(document: &yaml::Document, forbids: impl Fn(&str) -> bool) -> Outcome {
    let mut findings = document.findings.clone();
    let compiled = document.root.as_ref().and_then(|root| compile_root(root, &document.text, &mut findings));
    findings.sort_by_key(|finding| (finding.span.start, finding.code));
    // An object's name is a leaf of its template, too.
    findings.dedup();
    // What YAML took apart is wrong once, and not also as a value of another form.
    let is_trap = |one: &Finding| matches!(one.code, "SE0005" | "SE0008");
    let traps: Vec<_> = findings.iter().filter(|one| is_trap(one)).map(|one| one.span.clone()).collect();
    let is_within = |one: &Finding| traps.iter().any(|trap| trap.start <= one.span.start && one.span.end <= trap.end);
    findings.retain(|one| is_trap(one) || !is_within(one));
    let failed = findings.iter().any(|finding| forbids(finding.code));
    Outcome { compiled: compiled.filter(|_| !failed), findings }
}

/// Fields that an earlier build had, and without which a document does the same.
const FORMER_FIELDS: [&[&str]; 5] = [
    &["spec", "replaces"],
    &["spec", "lifecycle", "waitForOtherFinalizers"],
    &["spec", "lifecycle", "pruneGuard"],
    &["spec", "objects", "*", "apply", "strategy"],
    &["spec", "clusterInventory", "accessProviders"],
];

/// Compiles a document as a state store keeps it, of this build or an earlier one. It has run: fields that contradict each other
/// only by this build do what they did.
pub fn compile_kept(document: &yaml::Document) -> Option<Compiled> {
    let root = document.root.clone();
    let root = root.and_then(|root| FORMER_FIELDS.iter().try_fold(root, |root, path| root.edited(path, &|_| None)));
    let root = root.and_then(|root| root.edited(&["spec", "target", "cluster"], &|cluster| Some(renamed(cluster))));
    let forbids = |code: &str| code != "SE0114" && super::diagnostic::is_error(code);
    compile_unless(&yaml::Document { root, ..document.clone() }, forbids).compiled
}

/// A target under the name that it has now.
fn renamed(cluster: &Arc<Node>) -> Arc<Node> {
    match cluster.as_str() {
        Some(targets::FORMER_OWN_CLUSTER) => {
            let value = NodeValue::String(Scalar::plain(OWN_CLUSTER));
            Arc::new(Node { span: cluster.span.clone(), value })
        }
        _ => cluster.clone(),
    }
}

fn compile_root(root: &Arc<Node>, text: &Arc<str>, findings: &mut Vec<Finding>) -> Option<Compiled> {
    match kind_of(root, findings)? {
        "Mapping" => {
            let typed: Typed<MappingDocument> = read(root, findings)?;
            let mut compiler = Compiler::new(&typed.value.spec);
            let mapping = compiler.mapping(&typed.value, text);
            findings.extend(compiler.conclude(typed.complete));
            mapping.map(|mapping| Compiled::Mapping(Arc::new(mapping)))
        }
        "ClusterProvider" => {
            let typed: Typed<ClusterProviderDocument> = read(root, findings)?;
            Some(Compiled::ClusterProvider(provider::compile(&typed.value, findings)))
        }
        "ApiSchema" => {
            let typed: Typed<ApiSchemaDocument> = read(root, findings)?;
            schema::short::build(&typed.value, findings);
            Some(Compiled::ForAuthors)
        }
        _ => {
            let typed: Typed<MappingTestDocument> = read(root, findings)?;
            let cases = root.at(&["spec", "cases"]);
            if let Some(cases) = cases.filter(|cases| cases.value == NodeValue::Sequence(Vec::new())) {
                findings.push(Finding::new("SE0103", cases.headline(), "a test has at least one case"));
            }
            for object in typed.value.spec.cases.iter().flat_map(|case| case.observed.iter().chain(&case.related)) {
                observed_template(object, findings);
            }
            Some(Compiled::ForAuthors)
        }
    }
}

/// An object of `observed` or `related` of a test. A path to a file has no expressions.
pub fn observed_template(raw: &Raw, findings: &mut Vec<Finding>) -> Option<Template> {
    Template::compile(&raw.0, &Names::only(RootSet::OBSERVED), findings)
}

fn read<T: DeserializeOwned>(root: &Arc<Node>, findings: &mut Vec<Finding>) -> Option<Typed<T>> {
    from_node(root, &required_fields, findings)
}

/// The document's kind, where it is one of ours.
fn kind_of(root: &Node, findings: &mut Vec<Finding>) -> Option<&'static str> {
    if !matches!(root.value, NodeValue::Mapping(_)) {
        let message = format!(
            "a document is a map with `apiVersion`, `kind`, `metadata` and `spec`; this is {}",
            root.describe()
        );
        findings.push(Finding::new("SE0105", root.headline(), message));
        return None;
    }
    if let Some(version) = root.get("apiVersion").filter(|version| version.as_str() != Some(API_VERSION)) {
        let message = format!("this is no document of sync-engine: its apiVersion is {}", version.describe());
        let ours = version.as_str().is_some_and(|text| text.starts_with("sync-engine"));
        let help = if ours {
            format!("write `{API_VERSION}`")
        } else {
            "a directory of mappings holds nothing else; move this document to another place".to_owned()
        };
        findings.push(Finding::new("SE0105", version.headline(), message).help(help));
        return None;
    }
    let Some(kind) = root.get("kind") else {
        let finding = Finding::new("SE0105", root.headline(), "the field `kind` is missing");
        findings.push(finding.help(format!("one of {}", KINDS.join(", "))));
        return None;
    };
    let text = kind.as_str().unwrap_or_default();
    let known = KINDS.into_iter().find(|known| *known == text);
    if known.is_none() {
        let message = format!("the kind is one of {}; this is {}", KINDS.join(", "), kind.describe());
        findings.push(Finding { help: meant(text, &KINDS), ..Finding::new("SE0105", kind.headline(), message) });
    }
    known
}

/// What all parts of a mapping's compilation share.
struct Compiler {
    findings: Vec<Finding>,
    vars: Vec<String>,
    objects: Vec<String>,
    related: Vec<String>,
    /// Objects that are several, by `forEach`.
    several: Vec<String>,
    /// What each variable reads, also through the ones before it.
    var_references: BTreeMap<String, References>,
    /// Names of the object at hand: its `as`.
    locals: Vec<String>,
    /// The `as` of `targets`, which objects read.
    target_item: Option<String>,
    /// What the status reads.
    status_roots: RootSet,
    /// Whether the placement's namespace reads the source, or no other source is in its cluster: so that a fixed name there can
    /// be unique.
    place_per_source: bool,
}

/// A field that means nothing without another, and what to write.
type Needs = (&'static str, &'static str, &'static str);

/// What goes with the waves of a release.
const OF_WAVES: &[Needs] = &[
    ("progressDeadline", "waves", "without `waves`, a document reaches all sources at once: leave this out"),
    ("onFailure", "waves", "without `waves`, a document reaches all sources at once: leave this out"),
];

impl Compiler {
    fn new(spec: &MappingSpec) -> Self {
        let several = spec.objects.iter().filter(|object| object.for_each.is_some());
        Self {
            findings: Vec::new(),
            vars: spec.vars.0.iter().map(|(name, _)| name.value.clone()).collect(),
            objects: spec.objects.iter().map(|object| object.id.value.clone()).collect(),
            related: spec.related.iter().map(|related| related.id.value.clone()).collect(),
            several: several.map(|object| object.id.value.clone()).collect(),
            var_references: BTreeMap::new(),
            locals: Vec::new(),
            target_item: None,
            status_roots: RootSet::STATUS,
            place_per_source: source::namespace_reads_source(spec.placement.as_ref()) || source::is_alone(spec),
        }
    }

    /// The findings. Where a part of the document could not be read, a name can be unknown because of that alone.
    fn conclude(self, complete: bool) -> Vec<Finding> {
        let consequence = |finding: &Finding| !complete && finding.code.starts_with("SE03");
        self.findings.into_iter().filter(|finding| !consequence(finding)).collect()
    }

    fn report(&mut self, finding: Finding) {
        self.findings.push(finding);
    }

    /// Says why something cannot be compiled.
    fn refused<T>(&mut self, finding: Finding) -> Option<T> {
        self.report(finding);
        None
    }

    /// Names that expressions read, each of which stands once.
    fn check_ids<'a>(&mut self, ids: impl Iterator<Item = &'a Spanned<String>>, what: &str) {
        let mut seen = Vec::new();
        for id in ids {
            names::check_identifier(id, what, &mut self.findings);
            if seen.contains(&&id.value) {
                let finding = Finding::new("SE0111", id.span(), format!("the id `{}` stands here twice", id.value));
                self.report(finding.label("second of this id"));
            }
            seen.push(&id.value);
        }
    }

    /// Says which fields of a node lack another.
    fn check_needs(&mut self, node: &Node, needs: &[Needs]) {
        for (field, other, help) in needs {
            if let (Some((key, _)), None) = (node.given(field), node.given(other)) {
                let finding = Finding::new("SE0114", key.span.clone(), format!("`{field}` needs `{other}`"));
                self.report(finding.help(*help));
            }
        }
    }

    /// A leaf that may be left out.
    fn optional<T>(
        &mut self,
        raw: Option<&Raw>,
        roots: RootSet,
        compile: impl FnOnce(&Arc<Node>, &Names, &mut Vec<Finding>) -> Option<T>,
    ) -> Option<T> {
        raw.and_then(|raw| self.leaf(raw, roots, compile))
    }

    /// Compiles a leaf with the names that are readable at its place.
    fn leaf<T>(
        &mut self,
        raw: &Raw,
        roots: RootSet,
        compile: impl FnOnce(&Arc<Node>, &Names, &mut Vec<Finding>) -> Option<T>,
    ) -> Option<T> {
        let names =
            Names { vars: &self.vars, objects: &self.objects, related: &self.related, locals: &self.locals, roots };
        compile(&raw.0, &names, &mut self.findings)
    }

    /// `None` where something needed could not be compiled; findings say why.
    fn mapping(&mut self, document: &MappingDocument, text: &Arc<str>) -> Option<Mapping> {
        let spec = &document.spec.value;
        names::check_mapping_name(&document.metadata.name, &mut self.findings);
        let source = self.source(&spec.source);
        let target = self.targets(spec);
        let placement = self.placement(spec.placement.as_ref());
        let vars = self.variables(&spec.vars);
        let related = self.related(&spec.related);
        // As `targets` is written: what is wrong with it is said once, and not again wherever it is read.
        let several = spec.targets.is_some();
        let item = spec.targets.as_ref().and_then(|targets| targets.item.as_ref());
        self.target_item = item.map(|item| item.value.clone());
        self.end_item();
        let objects = self.objects(spec, related.as_deref().unwrap_or_default());
        self.target_item = None;
        self.end_item();
        self.status_roots = if several { RootSet::STATUS_OF_SEVERAL } else { RootSet::STATUS };
        let status = self.status(spec.status.as_ref(), &spec.objects);
        // Outside of an APIExport's workspaces, the names of clusters are used again.
        let recreated = spec.source.api_export.is_none().then_some(SourceRecreated::Block);
        let on_source_recreated = spec.lifecycle.on_source_recreated.or(recreated);
        let lifecycle = LifecycleSpec { on_source_recreated, ..spec.lifecycle.clone() };
        let release = self.release(&spec.release);
        if let Some(node) = document.spec.node.get("release") {
            self.check_needs(node, OF_WAVES);
        }
        let reconcile = self.reconcile(&spec.reconcile);
        let (target, target_rule) = target?;
        let (related, mut objects) = (related?, objects?);
        self.copies(&spec.related, &related, &mut objects);
        let mut placement = placement?;
        if several {
            self.check_several(&document.spec);
        }
        if target == OWN_CLUSTER {
            self.check_beside(&document.spec);
            objects.iter_mut().for_each(|rule| rule.kind = rule.kind.on(Side::Source));
            placement.create_namespace = false;
        }
        let name = &document.metadata.name.value;
        let mut mapping = Mapping {
            constants: Constants::new(name, &target),
            name: name.clone(),
            mode: spec.mode,
            source: source?,
            target,
            target_rule,
            related,
            placement,
            vars: vars?,
            objects,
            status: status?,
            lifecycle,
            release,
            reconcile,
            text: text.clone(),
            spec: document.spec.node.clone(),
        };
        let read = dependencies::read(mapping.leaves());
        for rule in mapping.objects.iter_mut().filter(|rule| rule.copy.is_none()) {
            rule.is_read = read.objects.contains(&rule.id);
            // Which step follows the key of one of several, only the run tells.
            rule.is_asked = read.verdicts.contains(&rule.id) || rule.is_read && rule.for_each.is_some();
        }
        mapping.related.iter_mut().for_each(|rule| rule.is_read = read.related.contains(&rule.id));
        let owners: Vec<_> = mapping.related.iter().map(|rule| owner_of(&mapping, rule)).collect();
        mapping.related.iter_mut().zip(owners).for_each(|(rule, owner)| rule.owner = owner);
        Some(mapping)
    }

    fn release(&mut self, spec: &ReleaseSpec) -> Release {
        let (default, given) = (MaxLost::default(), &spec.max_lost);
        let percent = given.percent.as_ref().map_or(default.percent, |percent| percent.value);
        if let Some(given) = given.percent.as_ref().filter(|_| percent > 100) {
            self.report(Finding::new("SE0102", given.span(), format!("`percent` is at most 100, not {percent}")));
        }
        let objects = given.objects.map_or(default.objects, |objects| objects as usize);
        Release {
            max_failing: spec.max_failing.unwrap_or_default(),
            max_lost: MaxLost { objects, percent },
            waves: self.waves(&spec.waves),
            progress_deadline: spec.progress_deadline.map_or(PROGRESS_DEADLINE, |period| period.0),
            on_failure: spec.on_failure,
        }
    }

    /// Each wave takes in more sources than the one before, and the last one all.
    fn waves(&mut self, specs: &[Spanned<WaveSpec>]) -> Vec<Wave> {
        let mut waves = Vec::new();
        let mut before = 0;
        for spec in specs {
            let members = match (&spec.sources, &spec.percent) {
                (Some(sources), None) => Members::Labeled(source::selector(sources, &mut self.findings)),
                (None, Some(percent)) if percent.value > before && percent.value <= 100 => {
                    before = percent.value;
                    Members::Percent(percent.value)
                }
                (None, Some(percent)) => {
                    let what =
                        format!("`percent` of a wave is more than {before}, and at most 100, not {}", percent.value);
                    let help = "the shares of waves count the sources of the waves before: 10, 50, 100";
                    self.report(Finding::new("SE0123", percent.span(), what).help(help));
                    continue;
                }
                _ => {
                    let finding = Finding::new("SE0123", spec.span(), "a wave has `sources` or `percent`");
                    self.report(finding.help("`sources: {matchLabels: {…}}` chooses by labels, `percent: 10` a share"));
                    continue;
                }
            };
            let soak = spec.soak.map_or(Duration::ZERO, |period| period.0);
            waves.push(Wave { members, soak, max_failing: spec.max_failing });
        }
        if let Some(last) = specs.last().filter(|last| before < 100 || last.percent.is_none()) {
            let finding = Finding::new("SE0123", last.span(), "the last wave leaves sources out");
            self.report(finding.help("add `- {percent: 100}`: a release ends once every source follows it"));
        }
        waves
    }

    /// Each variable may read the ones before it.
    fn variables(&mut self, vars: &Entries<Raw>) -> Option<Vec<(String, Template)>> {
        let all = std::mem::take(&mut self.vars);
        let mut compiled = Vec::new();
        for (name, value) in &vars.0 {
            names::check_identifier(name, "a variable's name", &mut self.findings);
            let template = self.leaf(value, RootSet::TEMPLATE, Template::compile);
            if let Some(template) = &template {
                let references = self.all_references(&template.references());
                self.var_references.insert(name.value.clone(), references);
            }
            compiled.push(template.map(|template| (name.value.clone(), template)));
            self.vars.push(name.value.clone());
        }
        self.vars = all;
        compiled.into_iter().collect()
    }

    fn reconcile(&mut self, spec: &ReconcileSpec) -> Reconcile {
        let concurrency = spec.concurrency.as_ref().map_or(8, |concurrency| concurrency.value);
        if let Some(given) = spec.concurrency.as_ref().filter(|given| given.value == 0) {
            self.report(
                Finding::new("SE0102", given.span(), "`concurrency` is at least 1")
                    .help("`mode: Suspend` stops the work"),
            );
        }
        let wait = |given: &Option<Spanned<Period>>, default| {
            given.as_ref().map_or(Duration::from_secs(default), |p| p.value.0)
        };
        let (min, max) = (wait(&spec.backoff.min, 1), wait(&spec.backoff.max, 300));
        if let Some(given) = spec.backoff.min.as_ref().filter(|given| given.value.0.is_zero()) {
            self.report(Finding::new("SE0102", given.span(), "a retry without a wait would never rest"));
        }
        if let Some(given) = spec.backoff.min.as_ref().or(spec.backoff.max.as_ref()).filter(|_| min > max) {
            self.report(Finding::new(
                "SE0114",
                given.span(),
                format!("the first wait, {min:?}, is longer than the longest, {max:?}"),
            ));
        }
        Reconcile {
            concurrency: usize::from(concurrency),
            resync: spec.resync.map_or(Duration::from_secs(36_000), |period| period.0),
            backoff_min: min,
            backoff_max: max,
            target_writes_per_second: spec.target_writes_per_second.unwrap_or(0),
        }
    }
}

#[cfg(test)]
mod tests;
