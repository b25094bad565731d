//! Which version of which mapping runs, given what the files say and what ran before.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use super::conflicts::{SourceKey, source_key};
use super::files::{Document, File};
use super::{Catalog, Entry, ProviderEntry, Standing, changes, conflicts};
use crate::check::{Places, common_object, copy_of_clusters};
use crate::compile::{Compiled, compile_kept};
use crate::diagnostic::{Diagnostic, Finding};
use crate::yaml;
use crate::{Direction, Mapping, ProviderKind, RelatedRule, SourceClusters};

/// A good mapping document.
#[derive(Clone)]
struct Candidate<'a> {
    path: &'a str,
    name_span: Range<usize>,
    mapping: Arc<Mapping>,
}

/// A finding that comes from outside of a document's compilation, or belongs to a mapping.
struct Placed<'a> {
    path: &'a str,
    finding: Finding,
    /// The mapping or provider it keeps from running.
    about: Option<String>,
}

pub(super) struct Selection<'a> {
    before: &'a Catalog,
    files: &'a BTreeMap<String, Arc<File>>,
    unreadable: &'a BTreeMap<String, String>,
    retained: &'a BTreeMap<String, Arc<str>>,
    placed: Vec<Placed<'a>>,
    /// Files of which not all could be used. While there is one, nothing is removed: what is missing may be in what is broken.
    broken: BTreeSet<&'a str>,
    /// Names of the mappings that run and write status, by what they watch.
    by_source: BTreeMap<SourceKey, Vec<String>>,
    /// Names of the mappings that run, by their clusters, with the places of their objects.
    by_clusters: BTreeMap<SourceClusters, BTreeMap<String, Places>>,
    pub mappings: BTreeMap<String, Entry>,
    pub providers: BTreeMap<String, ProviderEntry>,
    /// Providers of candidates that state stores alone tell: a process that starts knows no others from before.
    stored: Vec<ProviderEntry>,
    pub diagnostics: Vec<Diagnostic>,
}

impl<'a> Selection<'a> {
    pub(super) fn new(
        before: &'a Catalog,
        files: &'a BTreeMap<String, Arc<File>>,
        unreadable: &'a BTreeMap<String, String>,
        retained: &'a BTreeMap<String, Arc<str>>,
    ) -> Self {
        Self {
            before,
            files,
            unreadable,
            retained,
            placed: Vec::new(),
            broken: BTreeSet::new(),
            by_source: BTreeMap::new(),
            by_clusters: BTreeMap::new(),
            mappings: BTreeMap::new(),
            providers: BTreeMap::new(),
            stored: Vec::new(),
            diagnostics: Vec::new(),
        }
    }

    pub(super) fn select(&mut self) {
        self.note_broken_documents();
        self.select_providers();
        let candidates = self.one_for_each_name();
        self.keep_what_has_no_document(&candidates);
        self.note_stored_providers(&candidates);
        self.admit(candidates);
        let kept = self.keep_providers_in_use();
        self.join_providers(&kept);
        self.conclude();
    }

    fn documents(&self) -> impl Iterator<Item = (&'a str, &'a Document)> + use<'a> {
        self.files.iter().flat_map(|(path, file)| file.documents.iter().map(move |document| (path.as_str(), document)))
    }

    /// Documents and files that cannot be used.
    fn note_broken_documents(&mut self) {
        for (path, document) in self.documents() {
            let broken = document.compiled.is_none();
            let about = document.name.clone().filter(|_| broken);
            for finding in &document.findings {
                self.placed.push(Placed { path, finding: finding.clone(), about: about.clone() });
            }
            if broken && document.may_be_mapping {
                self.broken.insert(path);
            }
        }
        for (path, why) in self.unreadable {
            self.broken.insert(path);
            let finding = Finding::new("SE0011", 0..0, format!("the file cannot be read: {why}"));
            self.placed.push(Placed { path, finding, about: None });
        }
        for (path, _) in self.files.iter().filter(|(_, file)| file.is_blank()) {
            let held = self
                .before
                .mappings
                .iter()
                .any(|(_, entry)| entry.file.as_deref() == Some(path) && entry.standing != Standing::Retained);
            if held {
                self.broken.insert(path);
                let finding = Finding::new("SE0012", 0..0, "the file is empty; the mappings it held keep running");
                let finding = finding.help("to remove them, delete the file");
                self.placed.push(Placed { path, finding, about: None });
            }
        }
    }

    /// The good providers, one for each name: the one in force, else the first in order of path.
    fn select_providers(&mut self) {
        let mut by_name: BTreeMap<&str, Vec<(&'a str, &'a Document, ProviderEntry)>> = BTreeMap::new();
        for (path, document) in self.documents() {
            if let Some(Compiled::ClusterProvider(provider)) = &document.compiled {
                let entry = ProviderEntry { provider: provider.clone(), file: path.to_owned() };
                by_name.entry(&provider.name).or_default().push((path, document, entry));
            }
        }
        for (name, candidates) in by_name {
            let before = self.before.providers.get(name);
            let at_home = |before: &&ProviderEntry| candidates.iter().find(|(path, ..)| *path == before.file);
            // One whose own document is broken keeps its name.
            let kept = before.filter(|before| at_home(before).is_none() && self.may_hold(&before.file));
            let (.., first) = before.as_ref().and_then(at_home).unwrap_or(&candidates[0]);
            let chosen = kept.unwrap_or(first);
            let losers = candidates.iter().filter(|(.., entry)| !std::ptr::eq(entry, chosen));
            for &(path, document, _) in losers {
                self.refuse_name(path, document.name_span.clone(), "ClusterProvider", name, &chosen.file);
            }
            self.providers.insert(name.to_owned(), chosen.clone());
        }
    }

    /// Whether a file may hold documents that cannot be read now.
    fn may_hold(&self, path: &str) -> bool {
        let is_bad = |file: &Arc<File>| file.is_blank() || file.documents.iter().any(|one| one.compiled.is_none());
        self.unreadable.contains_key(path) || self.files.get(path).is_some_and(is_bad)
    }

    /// Whether a provider has a document that cannot be used.
    fn has_broken_provider(&self, name: &str) -> bool {
        let is_it = |document: &Document| !document.may_be_mapping && document.name.as_deref() == Some(name);
        self.documents().any(|(_, document)| document.compiled.is_none() && is_it(document))
    }

    fn span_of_provider(&self, path: &str, name: &str) -> Range<usize> {
        let is_it = |document: &&Document| matches!(&document.compiled, Some(Compiled::ClusterProvider(provider)) if provider.name == name);
        let document = self.files.get(path).and_then(|file| file.documents.iter().find(is_it));
        document.map_or(0..0, |document| document.name_span.clone())
    }

    fn refuse_name(&mut self, path: &'a str, span: Range<usize>, kind: &str, name: &str, other: &str) {
        let place = if path == other { "above in this file".to_owned() } else { format!("in {other}") };
        let finding = Finding::new("SE0121", span, format!("the {kind} `{name}` stands {place} already"))
            .help("give one of the two another name");
        self.placed.push(Placed { path, finding, about: None });
    }

    /// The good documents, one for each name: the one that runs already, else the first in order of path.
    fn one_for_each_name(&mut self) -> Vec<Candidate<'a>> {
        let mut by_name: BTreeMap<&str, Vec<Candidate<'a>>> = BTreeMap::new();
        for (path, document) in self.documents() {
            if let Some(Compiled::Mapping(mapping)) = &document.compiled {
                let candidate = Candidate { path, name_span: document.name_span.clone(), mapping: mapping.clone() };
                by_name.entry(mapping.name.as_str()).or_default().push(candidate);
            }
        }
        let mut chosen = Vec::new();
        for (name, candidates) in by_name {
            let winner = self.winner(name, &candidates);
            let home = self.before.mappings.get(name).and_then(|entry| entry.file.as_deref());
            let other = winner.map(|winner| winner.path).or(home).unwrap_or_default();
            for loser in candidates.iter().filter(|one| !winner.is_some_and(|winner| std::ptr::eq(*one, winner))) {
                self.refuse_name(loser.path, loser.name_span.clone(), "mapping", name, other);
            }
            chosen.extend(winner.cloned());
        }
        chosen
    }

    /// `None`: the running one's own document is broken, and it keeps its name.
    fn winner<'c>(&self, name: &str, candidates: &'c [Candidate<'a>]) -> Option<&'c Candidate<'a>> {
        let running = self.before.mappings.get(name).filter(|entry| entry.standing != Standing::Retained);
        let home = running.and_then(|entry| entry.file.as_deref());
        let at_home = || candidates.iter().filter(move |one| home == Some(one.path));
        let is_same = |one: &&Candidate<'_>| running.is_some_and(|entry| entry.mapping.text == one.mapping.text);
        let first = candidates.first().filter(|_| !home.is_some_and(|home| self.broken.contains(home)));
        at_home().find(is_same).or_else(|| at_home().next()).or(first)
    }

    /// Before any candidate is looked at: they are compared with each other.
    fn note_stored_providers(&mut self, candidates: &[Candidate<'a>]) {
        for Candidate { mapping, .. } in candidates {
            if mapping.providers().into_iter().any(|name| self.kinds_of(name).is_none()) {
                self.stored.extend(self.retained_providers(&mapping.name));
            }
        }
    }

    /// Lets the candidates run that get along with what runs: what stays as it was first, then what changes, then what is
    /// new.
    fn admit(&mut self, candidates: Vec<Candidate<'a>>) {
        // Told once for each: it compares whole documents.
        let told = candidates.into_iter().map(|candidate| (self.is_unchanged(&candidate), candidate));
        let mut told: Vec<(bool, Candidate<'a>)> = told.collect();
        told.sort_by_cached_key(|(unchanged, candidate)| match self.before.mappings.get(&candidate.mapping.name) {
            Some(entry) if entry.standing == Standing::Retained => 2,
            Some(_) if *unchanged => 0,
            Some(_) => 1,
            None => 2,
        });
        for (unchanged, candidate) in told {
            if let Some(finding) = self.objection(&candidate) {
                self.refuse(&candidate, finding);
                continue;
            }
            self.warn_of_rivals(&candidate);
            let before = self.before.mappings.get(&candidate.mapping.name);
            let (mapping, generation) = match before {
                Some(entry) if unchanged => (entry.mapping.clone(), entry.generation),
                Some(entry) => (candidate.mapping.clone(), entry.generation + 1),
                None => (candidate.mapping.clone(), 1),
            };
            let entry = Entry {
                mapping,
                generation,
                standing: Standing::Running,
                file: Some(candidate.path.to_owned()),
                removal_seen: false,
            };
            self.insert(entry);
        }
    }

    /// Mappings whose objects can get the names of the candidate's.
    fn warn_of_rivals(&mut self, candidate: &Candidate<'a>) {
        let beside = self.by_clusters.get(&source_key(&candidate.mapping).0).into_iter().flatten();
        let rivals = beside.filter_map(|(name, places)| Some((&*self.mappings.get(name)?.mapping, places)));
        let places = Places::default();
        let findings = rivals.filter_map(|rival| {
            let common = common_object((&*candidate.mapping, &places), rival)?;
            let message = format!("the mapping `{}` can write the same object: {common}, for example", rival.0.name);
            let finding = Finding::new("SE0708", candidate.name_span.clone(), message);
            Some(finding.help("give the objects of each mapping a name with an ending of its own"))
        });
        let placed = findings.map(|finding| Placed { path: candidate.path, finding, about: None });
        let placed: Vec<_> = placed.collect();
        self.placed.extend(placed);
    }

    /// Whether a candidate says what is known of its mapping already.
    fn is_unchanged(&self, candidate: &Candidate<'_>) -> bool {
        self.before.mappings.get(&candidate.mapping.name).is_some_and(|before| {
            let (one, other) = (&before.mapping, &candidate.mapping);
            Arc::ptr_eq(one, other) || one.text == other.text || changes::same_content(one, other)
        })
    }

    fn insert(&mut self, entry: Entry) {
        let name = &entry.mapping.name;
        if entry.standing != Standing::Retained {
            let source = source_key(&entry.mapping);
            self.by_clusters.entry(source.0.clone()).or_default().insert(name.clone(), Places::default());
            if conflicts::writes_status(&entry.mapping) {
                self.by_source.entry(source).or_default().push(name.clone());
            }
        }
        self.mappings.insert(name.clone(), entry);
    }

    /// A good document that must not run: what ran before it goes on, also where a process that starts knows it from the state store
    /// alone.
    fn refuse(&mut self, candidate: &Candidate<'a>, finding: Finding) {
        let name = candidate.mapping.name.clone();
        let before = self.before.mappings.get(&name);
        let is_removed = before.is_some_and(|before| before.standing == Standing::Retained);
        if let Some(mut entry) = self.last_good(&name) {
            if !is_removed {
                entry.standing = Standing::KeptOnError;
                entry.file = Some(candidate.path.to_owned());
            }
            self.insert(entry);
        }
        self.placed.push(Placed { path: candidate.path, finding, about: Some(name) });
    }

    /// Why a good document cannot run beside the others.
    fn objection(&self, candidate: &Candidate<'_>) -> Option<Finding> {
        let mapping = &candidate.mapping;
        let at = |provider: &str| place_of_provider(mapping, provider).unwrap_or_else(|| candidate.name_span.clone());
        if let Some(name) = mapping.providers().into_iter().find(|name| self.provider(name).is_none()) {
            if self.has_broken_provider(name) {
                let message = format!("the document of the ClusterProvider `{name}` has errors");
                return Some(Finding::new("SE0120", at(name), message).help("correct them: this one needs it"));
            }
            let finding = Finding::new("SE0120", at(name), format!("no document defines the ClusterProvider `{name}`"));
            let known: Vec<&str> = self.providers.keys().map(String::as_str).collect();
            let add = || "add one: `kind: ClusterProvider` with this name".to_owned();
            return Some(finding.help(yaml::meant(name, &known).unwrap_or_else(add)));
        }
        let misfit = self.reaches_out(mapping).or_else(|| self.selects_by_what_is_not_told(mapping));
        let misfit = misfit.or_else(|| self.gives_clusters_one_copy(mapping));
        if let Some((message, help)) = misfit.or_else(|| self.contradicts_its_provider(mapping)) {
            let of_source = match &mapping.source.clusters {
                SourceClusters::Provider(name) => name.as_str(),
                SourceClusters::ApiExport(_) => "",
            };
            return Some(Finding::new("SE0114", at(of_source), message).help(help));
        }
        if !conflicts::writes_status(mapping) {
            return None;
        }
        let beside = self.by_source.get(&source_key(mapping)).into_iter().flatten();
        beside.filter_map(|name| self.mappings.get(name)).map(|entry| &entry.mapping).find_map(|other| {
            let common = conflicts::common_status(mapping, other)?;
            let message = format!("the mapping `{}` writes the {common} of this resource already", other.name);
            Some(Finding::new("SE0701", candidate.name_span.clone(), message).help(conflicts::remedy(&common)))
        })
    }

    /// A provider that is defined, or was.
    fn provider(&self, name: &str) -> Option<&ProviderKind> {
        let stored = || self.stored.iter().find(|one| one.provider.name == name);
        let entry = self.providers.get(name).or_else(|| self.before.providers.get(name)).or_else(stored)?;
        Some(&entry.provider.kind)
    }

    /// The provider of a mapping's source.
    fn provider_of(&self, mapping: &Mapping) -> Option<&ProviderKind> {
        match &mapping.source.clusters {
            SourceClusters::Provider(name) => self.provider(name),
            SourceClusters::ApiExport(_) => None,
        }
    }

    /// A selection of clusters that matches none, because their provider tells nothing of what it compares.
    fn selects_by_what_is_not_told(&self, mapping: &Mapping) -> Option<(String, &'static str)> {
        let of_target = mapping.target_rule.as_ref().and_then(|rule| rule.fleet.as_ref());
        let mut all = mapping.source.selection.iter().chain(of_target);
        all.find_map(|selection| conflicts::untold(selection, &self.kinds_of(&selection.provider)?))
    }

    /// The kind of a provider, or those of the providers that it joins; `None`: one of them is not known.
    fn kinds_of(&self, provider: &str) -> Option<Vec<&ProviderKind>> {
        match self.provider(provider)? {
            ProviderKind::Multi(parts) => parts.iter().map(|part| self.provider(&part.name)).collect(),
            kind => Some(vec![kind]),
        }
    }

    /// What a mapping asks for that workspaces which kcp holds up do not give, and what to write instead.
    fn contradicts_its_provider(&self, mapping: &Mapping) -> Option<(String, &'static str)> {
        let kind = self.provider_of(mapping).filter(|kind| matches!(kind, ProviderKind::WorkspaceTypes(_)))?;
        let mut others = self.mappings.values().map(|entry| &*entry.mapping).filter(|other| other.name != mapping.name);
        let holds_the_same =
            |other: &&Mapping| self.provider_of(other).is_some_and(|other| conflicts::hold_the_same(kind, other));
        conflicts::misfit(mapping, kind).or_else(|| {
            let rival = others.find(holds_the_same);
            let message = format!("the mapping `{}` serves workspaces of this type already", rival?.name);
            Some((message, "use one mapping: the first that finishes removes kcp's initializer or terminator"))
        })
    }

    /// The related object that may be in another namespace than its source, where that is another cluster.
    fn reaches_out(&self, mapping: &Mapping) -> Option<(String, &'static str)> {
        let ProviderKind::Namespaces(_) = self.provider_of(mapping)? else { return None };
        let at_source = |related: &&RelatedRule| match related.direction {
            Direction::ToTarget => related.from.namespace.is_some(),
            Direction::ToSource => related.to.namespace.is_some(),
        };
        let id = &mapping.related.iter().find(at_source)?.id;
        let message = format!("`related` {id} names a namespace, and each namespace is a cluster of its own here");
        Some((message, "leave the namespace out: related objects are beside their source, and copies too"))
    }

    /// A copy that sources of two clusters would have: only the provider tells whether there are several. A namespace that stands
    /// for a cluster has a name of its own.
    fn gives_clusters_one_copy(&self, mapping: &Mapping) -> Option<(String, &'static str)> {
        let kind = self.provider_of(mapping)?;
        let has_several =
            !matches!(kind, ProviderKind::Kubeconfig(_) | ProviderKind::Namespaces(_) | ProviderKind::None(_));
        let id = copy_of_clusters(mapping).filter(|_| has_several)?;
        let message =
            format!("sources of two clusters would have one copy of `related` {id}, each written over the other");
        Some((message, "read `workspace.cluster` in `placement.namespace`, as the default does"))
    }

    /// Every mapping known that no good document stands for.
    fn keep_what_has_no_document(&mut self, candidates: &[Candidate<'a>]) {
        let named: BTreeSet<&str> = candidates.iter().map(|candidate| candidate.mapping.name.as_str()).collect();
        let known: BTreeSet<&String> = self.before.mappings.keys().chain(self.retained.keys()).collect();
        for name in known.into_iter().filter(|name| !named.contains(name.as_str())) {
            let Some(entry) = self.last_good(name) else { continue };
            // A mapping that was removed, or known from the inventory alone, does not come back because a file breaks.
            let before = self.before.mappings.get(name);
            let is_removed = before.is_some_and(|before| before.removal_seen || before.standing == Standing::Retained);
            let entry = match self.broken.is_empty() || is_removed {
                false => Entry { standing: Standing::KeptOnError, ..entry },
                true => Entry {
                    removal_seen: entry.removal_seen || entry.standing != Standing::Retained && entry.file.is_some(),
                    standing: Standing::Retained,
                    ..entry
                },
            };
            self.insert(entry);
        }
    }

    /// The version that ran, or the one that the inventory keeps.
    fn last_good(&self, name: &str) -> Option<Entry> {
        if let Some(entry) = self.before.mappings.get(name) {
            return Some(entry.clone());
        }
        self.retained_documents(name).find_map(|compiled| match compiled {
            Compiled::Mapping(mapping) if mapping.name == name => {
                Some(Entry { mapping, generation: 1, standing: Standing::Retained, file: None, removal_seen: false })
            }
            // An older engine's document that this one refuses: the inventory still has it, for an engine that can read it.
            _ => None,
        })
    }

    /// What a state store keeps of a mapping.
    fn retained_documents(&self, name: &str) -> impl Iterator<Item = Compiled> {
        let documents = self.retained.get(name).map(|text| yaml::parse(text.as_bytes())).unwrap_or_default();
        documents.into_iter().filter_map(|document| compile_kept(&document))
    }

    /// The providers of a mapping's clusters as the state store has them, and those that they join.
    fn retained_providers(&self, mapping: &str) -> Vec<ProviderEntry> {
        let providers = self.retained_documents(mapping).filter_map(|compiled| match compiled {
            Compiled::ClusterProvider(provider) => Some(ProviderEntry { provider, file: String::new() }),
            _ => None,
        });
        providers.collect()
    }

    /// A provider that joins others gets their documents, so that it is another one where one of them is. A name that means
    /// nothing is said, and keeps none of the others back. So is one that has no document any more and is `kept`.
    fn join_providers(&mut self, kept: &BTreeSet<String>) {
        let kinds: BTreeMap<String, ProviderKind> =
            self.providers.iter().map(|(name, entry)| (name.clone(), entry.provider.kind.clone())).collect();
        let mut missing = Vec::new();
        for (name, entry) in &mut self.providers {
            let ProviderKind::Multi(parts) = &mut entry.provider.kind else { continue };
            for part in parts {
                part.kind = kinds.get(&part.name).filter(|kind| kind.can_be_part()).cloned();
                if part.kind.is_none() || kept.contains(&part.name) {
                    missing.push((name.clone(), entry.file.clone(), part.name.clone()));
                }
            }
        }
        for (name, file, part) in missing {
            let span = self.span_of_provider(&file, &name);
            let Some((path, _)) = self.files.get_key_value(&file) else { continue };
            let others = "`multi` joins providers of plain clusters; the others of its list are served";
            let (message, help) = match kinds.get(&part) {
                Some(kind) if kind.can_be_part() => {
                    let message =
                        format!("no document defines the ClusterProvider `{part}` any more, which `{name}` joins");
                    (message, "its last version stays in use; take it out of the list to do without it")
                }
                Some(_) => (format!("the ClusterProvider `{part}` cannot be joined by `multi`"), others),
                None if self.has_broken_provider(&part) => {
                    (format!("the document of the ClusterProvider `{part}`, which `{name}` joins, has errors"), others)
                }
                None => (format!("no document defines the ClusterProvider `{part}`, which `{name}` joins"), others),
            };
            self.placed.push(Placed { path, finding: Finding::new("SE0120", span, message).help(help), about: None });
        }
    }

    /// A provider that a mapping still runs on stays, even when its document is gone, and so do those that it joins: their names,
    /// where its own document is good.
    fn keep_providers_in_use(&mut self) -> BTreeSet<String> {
        let used = self
            .mappings
            .values()
            .flat_map(|entry| entry.mapping.providers().into_iter().map(move |name| (entry, name)));
        let mut kept = BTreeSet::new();
        for (entry, name) in used {
            let known = |name: &str| {
                let of_before = self.before.providers.get(name).cloned();
                let stored =
                    || self.retained_providers(&entry.mapping.name).into_iter().chain(self.stored.iter().cloned());
                of_before.or_else(|| stored().find(|one| one.provider.name == *name))
            };
            let is_defined = self.providers.contains_key(name);
            let Some(provider) = self.providers.get(name).cloned().or_else(|| known(name)) else { continue };
            let parts = match &provider.provider.kind {
                ProviderKind::Multi(parts) => parts.iter().map(|part| &part.name).collect(),
                _ => Vec::new(),
            };
            let lost = parts.into_iter().filter(|part| !self.providers.contains_key(*part));
            let last: Vec<ProviderEntry> = lost.filter_map(|part| known(part)).collect();
            for part in last {
                kept.extend(is_defined.then(|| part.provider.name.clone()));
                self.providers.insert(part.provider.name.clone(), part);
            }
            if is_defined {
                continue;
            }
            self.providers.insert(name.to_owned(), provider);
            let path = entry.file.as_deref().and_then(|file| self.files.get_key_value(file));
            if let Some((path, _)) = path.filter(|_| entry.standing == Standing::Running) {
                let span = self.documents().find(|(at, document)| {
                    *at == path.as_str() && document.name.as_deref() == Some(entry.mapping.name.as_str())
                });
                let span = span.map_or(0..0, |(_, document)| {
                    let of_provider = match &document.compiled {
                        Some(Compiled::Mapping(mapping)) => place_of_provider(mapping, name),
                        _ => None,
                    };
                    of_provider.unwrap_or_else(|| document.name_span.clone())
                });
                let message =
                    format!("no document defines the ClusterProvider `{name}` any more; its last version stays in use");
                self.placed.push(Placed { path, finding: Finding::new("SE0120", span, message), about: None });
            }
        }
        kept
    }

    /// Findings become diagnostics, each with a word about what runs instead.
    fn conclude(&mut self) {
        let placed = std::mem::take(&mut self.placed);
        let named: BTreeSet<String> = placed.iter().filter_map(|placed| placed.about.clone()).collect();
        for placed in placed {
            let content = self.files.get(placed.path).map_or(&[][..], |file| &file.content);
            let mut diagnostic = Diagnostic::new(placed.finding, placed.path, content);
            for (name, generation) in self.kept_because_of(placed.path, placed.about.as_deref(), &named) {
                diagnostic = diagnostic.note(format!("mapping `{name}` keeps running generation {generation}"));
            }
            self.diagnostics.push(diagnostic);
        }
        let place = |one: &Diagnostic| (one.spot.file.clone(), one.spot.span.start, one.finding.code);
        self.diagnostics.sort_by_cached_key(place);
    }

    /// The mappings that run their last good version because of a finding: the one it is about, else all that no other finding
    /// tells of (`named`).
    fn kept_because_of(&self, path: &str, about: Option<&str>, named: &BTreeSet<String>) -> Vec<(&str, u64)> {
        let about = about.filter(|name| self.mappings.contains_key(*name));
        let is_elsewhere = |file: &str| file != path && self.broken.contains(file);
        let concerned = |name: &str, entry: &Entry| match about {
            Some(about) => about == name,
            None => {
                self.broken.contains(path) && !named.contains(name) && !entry.file.as_deref().is_some_and(is_elsewhere)
            }
        };
        let kept = self.mappings.iter().filter(|(_, entry)| entry.standing == Standing::KeptOnError);
        kept.filter(|(name, entry)| concerned(name, entry))
            .map(|(name, entry)| (name.as_str(), entry.generation))
            .collect()
    }
}

/// Where a mapping names a provider: of its sources, or of its targets.
fn place_of_provider(mapping: &Mapping, provider: &str) -> Option<Range<usize>> {
    const PLACES: [&[&str]; 5] = [
        &["source", "provider"],
        &["target", "clusters", "provider"],
        &["targets", "clusters", "provider"],
        &["target", "cluster"],
        &["targets", "cluster"],
    ];
    let lists = ["target", "targets"].into_iter().filter_map(|field| mapping.spec.at(&[field, "allowed"]));
    let places = PLACES.into_iter().filter_map(|path| mapping.spec.at(path));
    let mut places = places.chain(lists.flat_map(|list| list.items()));
    let names_it = |node: &&Arc<yaml::Node>| node.as_str().and_then(|text| text.split('/').next()) == Some(provider);
    places.find(names_it).map(|node| node.headline())
}
