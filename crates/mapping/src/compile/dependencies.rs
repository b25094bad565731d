//! `dependsOn`, and what expressions depend on: which object has to wait for which.

use std::collections::BTreeSet;
use std::ops::Range;

use super::Compiler;
use crate::diagnostic::Finding;
use crate::document::{MappingSpec, ObjectSpec};
use crate::expression::{References, VERDICT};
use crate::leaf::Leaf;
use crate::yaml::{Spanned, closest};
use crate::{ObjectRule, RELATED, RelatedRule};

impl Compiler {
    /// What is read, with what the variables among it read.
    pub(super) fn all_references(&self, direct: &References) -> References {
        let mut all = direct.clone();
        for references in direct.vars.iter().filter_map(|name| self.var_references.get(name)) {
            all.extend(references);
        }
        all
    }

    /// Fills in the dependencies of every rule, and refuses those that could never be met.
    pub(super) fn dependencies(
        &mut self,
        spec: &MappingSpec,
        rules: &mut [Option<ObjectRule>],
        related: &[RelatedRule],
    ) {
        let specs = &spec.objects;
        let (objects, others) = (self.objects.clone(), self.related.clone());
        let mut nodes = Vec::new();
        for (index, spec) in specs.iter().enumerate() {
            let mut wanted =
                rules[index].as_ref().map(|rule| self.all_references(&read(rule.leaves()))).unwrap_or_default();
            for named in &spec.depends_on {
                self.check_dependency(spec, named, specs);
                match named.strip_prefix(RELATED) {
                    Some(name) => wanted.related.insert(name.to_owned()),
                    None => wanted.objects.insert(named.value.clone()),
                };
            }
            if let Some(rule) = &mut rules[index] {
                rule.depends_on = positions(&objects, &wanted.objects);
                rule.depends_on_related = positions(&others, &wanted.related);
            }
            nodes.push(Needs { name: spec.id.value.clone(), at: spec.id.span(), wanted });
        }
        for (spec, rule) in spec.related.iter().zip(related) {
            let wanted = self.related_references(rule);
            nodes.push(Needs { name: format!("{RELATED}{}", rule.id), at: spec.id.span(), wanted });
        }
        for (spec, rule) in specs.iter().zip(&*rules).filter_map(|(spec, rule)| Some((spec, rule.as_ref()?))) {
            let mut wanted = self.all_references(&read(rule.verdicts()));
            // It waits for no object: one that does not exist reads as absent.
            wanted.objects.clear();
            nodes.push(Needs { name: verdict_of(&rule.id), at: spec.id.span(), wanted });
        }
        self.check_cycles(&nodes);
    }

    /// What the places of a related object read.
    fn related_references(&self, rule: &RelatedRule) -> References {
        // What is added may read the original, which does not wait for its copy.
        let mut added = read(rule.added());
        added.related.remove(&rule.id);
        let mut direct = read(rule.leaves());
        direct.extend(&added);
        self.all_references(&direct)
    }

    fn check_dependency(&mut self, spec: &ObjectSpec, named: &Spanned<String>, specs: &[Spanned<ObjectSpec>]) {
        let (what, name, known) = match named.strip_prefix(RELATED) {
            Some(name) => ("related object", name, &self.related),
            None => ("object", named.as_str(), &self.objects),
        };
        if !known.iter().any(|known| known == name) {
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            // As expressions write it, it is meant, too.
            let as_read = named.strip_prefix("objects.").filter(|id| known.contains(id));
            let help = match as_read.or_else(|| closest(name, &known)) {
                _ if self.related.contains(&named.value) => format!("did you mean `{RELATED}{name}`?"),
                Some(meant) if what == "object" => format!("did you mean `{meant}`?"),
                Some(meant) => format!("did you mean `{RELATED}{meant}`?"),
                None if known.is_empty() => "it has none".to_owned(),
                None => format!("it has {}", known.join(", ")),
            };
            let finding = Finding::new("SE0310", named.span(), format!("the mapping has no {what} `{name}`"));
            return self.report(finding.help(help));
        }
        let own = specs.iter().any(|other| other.id.value == name && other.shared.is_none());
        if spec.shared.is_some() && (own || what != "object") {
            let message = format!("the shared object `{}` cannot wait for an object of one source", spec.id.value);
            let finding = Finding::new("SE0312", named.span(), message);
            self.report(
                finding.help("it stands for all sources of a namespace; it can wait for another shared object"),
            );
        }
    }

    /// Objects that wait for each other would wait for ever.
    fn check_cycles(&mut self, nodes: &[Needs]) {
        let position = |name: &str| nodes.iter().position(|node| node.name == name);
        let edges_of = |node: &Needs| -> Vec<usize> {
            let objects = node.wanted.objects.iter().filter_map(|id| position(id));
            let related = node.wanted.related.iter().filter_map(|id| position(&format!("{RELATED}{id}")));
            let verdicts = node.wanted.verdicts.iter().filter_map(|id| position(&verdict_of(id)));
            objects.chain(related).chain(verdicts).collect()
        };
        let edges: Vec<Vec<usize>> = nodes.iter().map(edges_of).collect();
        let mut said: Vec<usize> = Vec::new();
        for start in 0..edges.len() {
            let Some(cycle) = cycle_from(start, &edges).filter(|cycle| !cycle.iter().any(|one| said.contains(one)))
            else {
                continue;
            };
            let name = |position: &usize| format!("`{}`", nodes[*position].name);
            let (at, chain) = (nodes[start].at.clone(), cycle.iter().skip(1).chain([&start]).map(name));
            let finding = if cycle.len() == 1 {
                Finding::new("SE0311", at, format!("{} waits for itself", name(&start)))
                    .help("`objects.<id>` is the object on the target; its own template cannot read it, `ready`, `failed` and `status` can")
            } else {
                let chain = chain.collect::<Vec<_>>().join(", which waits for ");
                Finding::new("SE0311", at, format!("{} waits for {chain}", name(&start)))
                    .help("no object could be created first: remove one `dependsOn`, or one read of `objects.<id>`")
            };
            said.extend(&cycle);
            self.report(finding);
        }
    }
}

/// An object or related object, and what it waits for.
struct Needs {
    name: String,
    at: Range<usize>,
    wanted: References,
}

/// What leaves read.
pub(super) fn read<'m>(leaves: impl Iterator<Item = Leaf<'m>>) -> References {
    let mut read = References::default();
    leaves.for_each(|leaf| read.extend(&leaf.references()));
    read
}

/// How expressions ask whether an object is ready.
fn verdict_of(id: &str) -> String {
    format!("objects.{id}.{VERDICT}")
}

pub(super) fn positions(all: &[String], wanted: &BTreeSet<String>) -> Vec<usize> {
    wanted.iter().filter_map(|id| all.iter().position(|known| known == id)).collect()
}

/// The shortest way from a position back to itself.
fn cycle_from(start: usize, edges: &[Vec<usize>]) -> Option<Vec<usize>> {
    let mut ways = vec![vec![start]];
    let mut seen = vec![false; edges.len()];
    while !ways.is_empty() {
        let mut next = Vec::new();
        for way in ways {
            let last = *way.last()?;
            for to in &edges[last] {
                if *to == start {
                    return Some(way);
                }
                if !std::mem::replace(&mut seen[*to], true) {
                    next.push([&way[..], &[*to]].concat());
                }
            }
        }
        ways = next;
    }
    None
}
