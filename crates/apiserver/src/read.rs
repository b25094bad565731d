//! GET of one object and of lists.

use std::collections::BTreeMap;
use std::sync::Arc;

use data_encoding::BASE64URL_NOPAD;
use hyper::body::Bytes;
use serde_json::{Value, json};

use super::collection::{Key, Stored};
use super::kcp;
use super::reply::Answer;
use super::request::{Query, ResourcePath};
use super::resource::Resource;
use super::selector::Selector;
use super::state::{Scope, State, View};
use super::status::Failure;

/// Where a list goes on: the version its first page was read at, and the last object sent.
struct Continue {
    version: u64,
    after: Key,
}

/// Objects in the order of their keys.
type Objects<'a> = Box<dyn Iterator<Item = (&'a Key, &'a Arc<Stored>)> + 'a>;

struct Page {
    items: Vec<Bytes>,
    next: Option<Key>,
    remaining: usize,
}

impl State {
    pub(super) fn get(&self, view: &View, path: &ResourcePath) -> Result<Answer, Failure> {
        let (_, stored) = self.existing(view, path)?;
        Ok(Answer::json(200, view.object(stored, self.now)))
    }

    /// The object that a URL names.
    pub(super) fn existing(&self, view: &View, path: &ResourcePath) -> Result<(Key, &Arc<Stored>), Failure> {
        let name = path.name.as_deref().unwrap_or_default();
        let Scope::Cluster(cluster) = &view.scope else { return Err(Failure::PageNotFound) };
        let key = Key::new(cluster, path.namespace.as_deref().unwrap_or_default(), name);
        let selector = view.selector(&Query::default())?;
        let found = self.stored(&view.resource, &key).filter(|stored| selector.matches(&key, stored));
        found.map(|stored| (key, stored)).ok_or_else(|| Failure::not_found(&view.resource, name))
    }

    pub(super) fn list(&self, view: &View, path: &ResourcePath, query: &Query) -> Result<Answer, Failure> {
        let selector = view.selector(query)?;
        let limit = query.get("limit").and_then(|limit| limit.parse().ok()).filter(|limit| *limit > 0);
        let resumed = query.get("continue").filter(|token| !token.is_empty()).map(Continue::parse).transpose()?;
        let exactly = match &resumed {
            Some(resumed) => Some(resumed.version),
            None => version_asked_for(query)?,
        };
        let version = exactly.unwrap_or(self.version());
        let collection = self.collection(&view.resource);
        if collection.is_some_and(|collection| collection.since(version, None).is_none()) {
            let what = if resumed.is_some() { "continue parameter" } else { "resource version" };
            return Err(Failure::expired(format!("The provided {what} is too old to display a consistent list")));
        }
        let after = resumed.map(|resumed| resumed.after);
        let page = self.page(view, path.namespace.as_deref(), version, &selector, after.as_ref(), limit);
        Ok(Answer::json(200, self.list_body(view, version, page, selector.is_everything())))
    }

    /// Objects of a view, in order, beginning after a key.
    pub(super) fn objects_of<'a>(
        &'a self,
        view: &'a View,
        namespace: Option<&'a str>,
        after: Option<&'a Key>,
    ) -> Objects<'a> {
        let Some(collection) = self.collection(&view.resource) else { return Box::new(std::iter::empty()) };
        match &view.scope {
            Scope::Nothing => Box::new(std::iter::empty()),
            Scope::Cluster(cluster) => Box::new(collection.of_cluster(cluster, namespace, after)),
            Scope::Bound { export, shard } => {
                let clusters = self.clusters_bound(export, *shard);
                let rest = clusters.filter(move |cluster| after.is_none_or(|after| ***cluster >= *after.cluster));
                Box::new(rest.flat_map(move |cluster| {
                    collection.of_cluster(cluster, namespace, after.filter(|after| after.cluster == *cluster))
                }))
            }
        }
    }

    /// Objects of a view as they were at a version, in order, beginning after a key.
    fn objects_at<'a>(
        &'a self,
        view: &'a View,
        namespace: Option<&'a str>,
        version: u64,
        after: Option<&'a Key>,
    ) -> Objects<'a> {
        let in_reach = |key: &Key| {
            view.scope.holds(self, key)
                && namespace.is_none_or(|namespace| namespace == &*key.namespace)
                && after.is_none_or(|after| key > after)
        };
        let mut objects: BTreeMap<&Key, &Arc<Stored>> = self.objects_of(view, namespace, after).collect();
        let cluster = view.scope.cluster();
        let since = self.collection(&view.resource).and_then(|collection| collection.since(version, cluster));
        // What happened since is taken back, the last of it first.
        for change in since.into_iter().flatten().rev().filter(|change| in_reach(&change.key)) {
            match &change.previous {
                Some(previous) => drop(objects.insert(&change.key, previous)),
                None => drop(objects.remove(&change.key)),
            }
        }
        Box::new(objects.into_iter())
    }

    fn page(
        &self,
        view: &View,
        namespace: Option<&str>,
        version: u64,
        selector: &Selector,
        after: Option<&Key>,
        limit: Option<usize>,
    ) -> Page {
        let objects = match version < self.version() {
            true => self.objects_at(view, namespace, version, after),
            false => self.objects_of(view, namespace, after),
        };
        let mut matching = objects.filter(|(key, stored)| selector.matches(key, stored)).peekable();
        let mut page = Page { items: Vec::new(), next: None, remaining: 0 };
        while limit.is_none_or(|limit| page.items.len() < limit) {
            let Some((key, stored)) = matching.next() else { return page };
            page.items.push(view.item(stored, self.now));
            page.next = matching.peek().is_some().then(|| key.clone());
        }
        page.remaining = matching.count();
        page
    }

    fn list_body(&self, view: &View, version: u64, page: Page, count_is_known: bool) -> String {
        let mut metadata = json!({"resourceVersion": version.to_string()});
        if let Scope::Nothing = view.scope {
            metadata = json!({});
        }
        let is_defined = view.resource.custom || view.resource.group.ends_with(".kcp.io");
        if is_defined && !matches!(view.scope, Scope::Nothing) {
            metadata["continue"] = "".into();
        }
        if let Some(after) = page.next.filter(|_| page.remaining > 0) {
            metadata["continue"] = Continue { version, after }.token().into();
            if count_is_known {
                metadata["remainingItemCount"] = page.remaining.into();
            }
        }
        view.with_items(&view.head(metadata), &page.items)
    }
}

impl View {
    /// The request's selectors, and the mark that the view itself asks for.
    pub(super) fn selector(&self, query: &Query) -> Result<Selector, Failure> {
        let selector = Selector::parse(query.get("labelSelector"), query.get("fieldSelector"), &self.resource)?;
        Ok(match &self.mark {
            Some((key, value)) => selector.and_label(key, value),
            None => selector,
        })
    }
}

impl Continue {
    fn token(&self) -> String {
        let Key { cluster, namespace, name } = &self.after;
        let parts = json!([self.version, **cluster, **namespace, **name]);
        BASE64URL_NOPAD.encode(parts.to_string().as_bytes())
    }

    fn parse(token: &str) -> Result<Continue, Failure> {
        let unreadable = || Failure::bad_request("continue key is not valid");
        let bytes = BASE64URL_NOPAD.decode(token.as_bytes()).map_err(|_| unreadable())?;
        let parts: (u64, String, String, String) = serde_json::from_slice(&bytes).map_err(|_| unreadable())?;
        Ok(Continue { version: parts.0, after: Key::new(&parts.1, &parts.2, &parts.3) })
    }
}

/// The version that a list is to be of exactly.
fn version_asked_for(query: &Query) -> Result<Option<u64>, Failure> {
    let Some(version) = query.get("resourceVersion").filter(|version| !version.is_empty()) else { return Ok(None) };
    let version: u64 = version.parse().map_err(|_| {
        let why = format!("Invalid value: {version:?}: strconv.ParseUint: parsing {version:?}: invalid syntax");
        Failure::bad_request(format!("invalid resource version: resourceVersion: {why}"))
    })?;
    Ok(Some(version).filter(|_| query.get("resourceVersionMatch") == Some("Exact")))
}

/// An object's JSON in a version.
pub(super) fn body(resource: &Resource, version: &str, stored: &Stored) -> Bytes {
    if *version == *resource.storage_version && !resource.custom {
        return stored.body.clone();
    }
    let expected = format!("\"apiVersion\":\"{}\"", resource.api_version(version));
    let start = &stored.body[..stored.body.len().min(expected.len() + 1)];
    if start.get(1..) == Some(expected.as_bytes()) {
        return stored.body.clone();
    }
    in_version(resource, version, stored.object()).to_string().into()
}

/// An object in another version: only kcp's own kinds differ in more than the name of the version.
pub(super) fn in_version(resource: &Resource, version: &str, mut object: Value) -> Value {
    object["apiVersion"] = resource.api_version(version).into();
    kcp::versions::convert(resource, version, &mut object);
    object
}
