//! The network between engines and servers: HTTP over pipes in memory. What happens to a request is decided when it is
//! sent; it may arrive after its client has given up, or was killed.

use std::convert::Infallible;
use std::io;
use std::time::Duration;

use http::{HeaderValue, Uri};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use sync_engine::multicluster::in_process::Surroundings;
use sync_engine::sandbox::{Failure, Outcome, Request, Stream, Verb};
use tokio::io::DuplexStream;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout_at};

use super::action::Forever;
use super::checker::{BUSY, LEASES, RECORDS};
use super::core::{Core, Held, Sent, Shared, Weather};
use super::dice::Dice;
use super::mapping::is_made;
use super::replicas;
use super::server::{SHARD, Side, is_read, workspace_url};

/// As long as a request may be under way.
const LONGEST: u64 = 60_000;
/// As long as one takes there and back where nothing is wrong.
const USUAL: u64 = 8;

/// How one engine process reaches one server.
#[derive(Clone)]
pub struct Link {
    pub shared: Shared,
    pub process: u32,
    pub side: Side,
    pub path: &'static str,
    /// The host that it was dialled by; empty before that.
    pub host: String,
}

impl Surroundings for Link {
    fn kubeconfig(&self) -> (Uri, String) {
        let kubeconfig = self.shared.lock().server(self.side).kubeconfig;
        let url = format!("{}{}", kubeconfig.url(self.side), self.path);
        (Uri::from_maybe_shared(url).expect("a URL"), kubeconfig.token())
    }

    fn dial(&self, to: &Uri) -> io::Result<DuplexStream> {
        let host = to.host().unwrap_or_default().to_owned();
        let side = Side::of_host(&host);
        if !self.shared.lock().server(side).up {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let shard = usize::from(host.ends_with(SHARD));
        let link = Self { side, host, ..self.clone() };
        let (shared, process) = (self.shared.clone(), self.process);
        let (client, served) = pipe(move |request| exchange(link.clone(), shard, request));
        *self.shared.lock().connections.entry(process).or_default() += 1;
        self.shared.spawn(async move {
            served.await;
            shared.lock().connections.entry(process).and_modify(|open| *open -= 1);
        });
        Ok(client)
    }

    fn entropy(&self) -> u64 {
        self.shared.lock().entropy.next()
    }
}

/// A connection in memory: its end at the client, and what has to run for it.
pub fn pipe<F, A>(exchange: F) -> (DuplexStream, impl Future<Output = ()>)
where
    F: Fn(hyper::Request<Incoming>) -> A,
    A: Future<Output = Result<hyper::Response<Content>, Cut>>,
{
    let (client, server) = tokio::io::duplex(256 << 10);
    let connection = hyper::server::conn::http1::Builder::new()
        .auto_date_header(false)
        .serve_connection(TokioIo::new(server), service_fn(exchange));
    let served = async move {
        // How a connection ends is the client's matter.
        let _ = connection.await;
    };
    (client, served)
}

/// What happens to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fate {
    /// Milliseconds until it arrives; `None`: never.
    there: Option<u64>,
    /// Milliseconds until its answer arrives; `None`: never.
    back: Option<u64>,
    /// Milliseconds until the client's connection breaks; `None`: it does not, the client waits for its own deadline.
    cut: Option<u64>,
    /// The server answers with this error.
    error: Option<Error>,
    /// It arrives earlier if there is another write of the same object: just before it.
    lurks: bool,
}

impl Fate {
    /// How long what is wrong with it may be felt: until it arrives, or its client gives up.
    fn trouble(&self) -> Option<Duration> {
        let (there, back) = (self.there.unwrap_or(LONGEST), self.back.unwrap_or(LONGEST));
        let is_usual = self.cut.is_none() && self.error.is_none() && there + back <= USUAL;
        (!is_usual).then(|| Duration::from_millis(there + back))
    }
}

/// An error that has nothing to do with the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Error {
    Conflict,
    Busy,
    /// Whether the request was carried out all the same.
    Broken {
        code: u16,
        after: bool,
    },
    Forbidden,
    /// The token is not known.
    Unauthorized,
}

#[derive(Debug, thiserror::Error)]
#[error("the connection broke")]
pub struct Cut;

pub type Content = UnsyncBoxBody<Bytes, Infallible>;

async fn exchange(
    link: Link,
    shard: usize,
    request: hyper::Request<Incoming>,
) -> Result<hyper::Response<Content>, Cut> {
    let token = request.headers().get(AUTHORIZATION).cloned();
    let request = Request { shard, ..read(request).await? };
    let asked = target_of(&request);
    link.shared.runs(link.process).await;
    let (sent, fate) = send(&link, &request, token);
    let (answer, answered) = oneshot::channel();
    let carried = link.clone();
    link.shared.spawn(async move {
        let Some(there) = fate.there else { return };
        if fate.lurks {
            let held = Held { sent, link: carried.clone(), request: request.clone() };
            carried.shared.lock().held.push(held);
        }
        sleep(Duration::from_millis(there)).await;
        if fate.lurks && carried.shared.lock().release(|held| held.sent == sent).is_empty() {
            return;
        }
        let back = fate.back.filter(|_| fate.cut.is_none()).map(Duration::from_millis);
        let outcome = arrive(&carried, sent, &request, fate.error, back);
        if let Some(back) = fate.back {
            sleep(Duration::from_millis(back)).await;
            // Whoever asked may be gone.
            let _ = answer.send(outcome);
        }
    });
    if let Some(cut) = fate.cut {
        sleep(Duration::from_millis(cut)).await;
        return Err(Cut);
    }
    match answered.await {
        Ok(outcome) => {
            link.shared.runs(link.process).await;
            Ok(respond(link, &asked, outcome))
        }
        // The client waits until its deadline.
        Err(_) => std::future::pending().await,
    }
}

/// Decides what happens to a request, and has it judged.
fn send(link: &Link, request: &Request, token: Option<HeaderValue>) -> (Sent, Fate) {
    let core = &mut *link.shared.lock();
    let number = core.next_request();
    let mut fate = fate(core, request);
    let known = format!("Bearer {}", core.server(link.side).kubeconfig.token());
    if token.is_none_or(|token| token != known.as_str()) {
        fate.error = Some(Error::Unauthorized);
    }
    let age = core.age();
    core.checker.sent(age, (link.process, link.side, &link.host), request);
    let call = request.call();
    if core.barred.contains(&link.process) && call.resource == LEASES {
        fate.error = Some(Error::Forbidden);
    }
    let is_write = !is_read(call.verb);
    if core.plan.elects && is_write {
        replicas::judge(core, link.process, call.resource == LEASES);
    }
    if let Some(until) = fate.trouble() {
        core.checker.is_troubled(age + until);
    }
    if fate.there != Some(0) && (fate.back.is_none() || fate.cut.is_some()) {
        let told = match fate.there {
            None => "is lost".to_owned(),
            Some(there) if fate.cut.is_some() => format!("arrives after {there} ms, its client hears nothing"),
            Some(there) => format!("arrives after {there} ms, the answer is lost"),
        };
        core.note(format_args!("#{number} of engine {} {told}", link.process));
    }
    (Sent { number, at: age }, fate)
}

fn fate(core: &mut Core, request: &Request) -> Fate {
    let verb = request.call().verb;
    let reads = is_read(verb);
    let dice = &mut core.dice;
    let mut fate =
        Fate { there: Some(dice.between(1, 4)), back: Some(dice.between(1, 4)), cut: None, error: None, lurks: false };
    let weather = core.weather;
    if reads && weather.only_writes {
        return fate;
    }
    if dice.percent(weather.slow) {
        fate.there = Some(dice.between(1, 900));
        fate.back = Some(dice.between(1, 900));
    }
    if dice.percent(weather.lost_before) {
        fate.there = None;
    } else if dice.percent(weather.lost_after) {
        fate.back = None;
    } else if dice.percent(weather.late) && verb != Verb::Watch {
        fate.there = Some(dice.between(20, LONGEST));
        fate.back = None;
        fate.lurks = !reads && dice.percent(50);
    } else {
        fate.error = error(dice, weather, reads);
    }
    if fate.there.is_none() || fate.back.is_none() {
        // Mostly the connection breaks at once.
        fate.cut = dice.percent(80).then(|| dice.between(1, 20));
    }
    fate
}

fn error(dice: &mut Dice, weather: Weather, reads: bool) -> Option<Error> {
    if !reads && dice.percent(weather.conflict) {
        Some(Error::Conflict)
    } else if dice.percent(weather.busy) {
        Some(Error::Busy)
    } else if dice.percent(weather.broken) {
        Some(Error::Broken { code: dice.pick(&[500, 503, 504]), after: dice.percent(50) })
    } else {
        dice.percent(weather.forbidden).then_some(Error::Forbidden)
    }
}

/// Carries a request out at its server, and before it what lurks for it.
fn arrive(link: &Link, sent: Sent, request: &Request, error: Option<Error>, back: Option<Duration>) -> Outcome {
    let core = &mut *link.shared.lock();
    if request.method != http::Method::GET {
        let meets = |held: &Held| held.link.side == link.side && held.request.path == request.path;
        for held in core.release(meets) {
            carry_out(core, &held.link, held.sent, &held.request, None, None);
        }
    }
    carry_out(core, link, sent, request, error, back)
}

/// `back`: how long until the client hears the answer, if it does.
fn carry_out(
    core: &mut Core,
    link: &Link,
    sent: Sent,
    request: &Request,
    error: Option<Error>,
    back: Option<Duration>,
) -> Outcome {
    let (now, age, up) = (core.now(), core.age(), core.server(link.side).up);
    let is_away = !up || is_cut_off(core, request);
    let error = if is_away { Some(Error::Broken { code: 503, after: false }) } else { error };
    let failure = denial(core, link.side, request);
    // Each write that admission refuses is a fault of its own: it is sent again, less and less often.
    core.checker.faults += u64::from(failure.is_some());
    let (outcome, events) = match (error, failure) {
        (Some(Error::Broken { code, after: true }), None) => {
            let (_, events) = core.server(link.side).handle(request, now);
            (Outcome::refused(&Failure::server_error(code)), events)
        }
        (Some(error), _) => (Outcome::refused(&error.failure(request)), Vec::new()),
        (None, Some(failure)) => (Outcome::refused(&failure), Vec::new()),
        (None, None) => core.server(link.side).handle(request, now),
    };
    let code = match &outcome {
        Outcome::Answer(answer) => answer.code,
        Outcome::Stream(_) => 200,
    };
    let call = request.call();
    core.note(format_args!(
        "#{} engine {} {} {} {} {}/{} at {}: {code}",
        sent.number,
        link.process,
        call.verb,
        call.resource,
        call.cluster,
        call.namespace,
        call.name,
        link.side.name()
    ));
    core.checker.happened(age, link.side, Some(link.process), &events);
    let heard = back.map(|back| age + back);
    core.checker.answered(age, sent.at, (link.process, link.side, &link.host), request, code, heard);
    outcome
}

/// Whether it is for a workspace that answers no request any more.
fn is_cut_off(core: &mut Core, request: &Request) -> bool {
    let Some(Forever::Workspace(tenant)) = core.plan.forever else { return false };
    let workspace = core.get(Side::Source, &workspace_url(tenant)).unwrap_or_default();
    let cluster = workspace["spec"]["cluster"].as_str().unwrap_or_default();
    !cluster.is_empty() && request.path.contains(&format!("/clusters/{cluster}/"))
}

/// What admission says where the objects are.
fn denial(core: &Core, side: Side, request: &Request) -> Option<Failure> {
    let call = request.call();
    let is_denied = match core.plan.is_beside {
        true => side == Side::Source && is_made(&call.resource),
        false => side.is_target() && call.namespace != RECORDS && call.name != RECORDS,
    };
    let for_ever =
        matches!(core.plan.forever, Some(Forever::Refusal(name)) if call.name == name && !is_read(call.verb));
    let said = call.verb.to_string();
    let denied = for_ever || core.denied == Some(&*said);
    let verb = Some(said).filter(|_| is_denied && denied)?;
    // It quotes what it refuses.
    let body = serde_json::from_slice::<Value>(&request.body).unwrap_or_default();
    let why = format!("admission webhook \"policy.example.dev\" denied the request: no {verb} of {}", body["data"]);
    Some(Failure::status(403, "Forbidden", why))
}

impl Error {
    fn failure(self, request: &Request) -> Failure {
        let call = request.call();
        match self {
            Self::Conflict => {
                let why = format!(
                    "Operation cannot be fulfilled on {} {:?}: the object has been modified; please apply your changes to the latest version and try again",
                    call.resource, call.name
                );
                Failure::status(409, "Conflict", why)
            }
            Self::Unauthorized => Failure::status(401, "Unauthorized", "Unauthorized"),
            Self::Busy => Failure::too_many_requests(BUSY.as_secs() as u32),
            Self::Broken { code, .. } => Failure::server_error(code),
            Self::Forbidden => {
                let why =
                    format!("{} {:?} is forbidden: User \"sandbox\" cannot {} it", call.resource, call.name, call.verb);
                Failure::status(403, "Forbidden", why)
            }
        }
    }
}

pub async fn read(request: hyper::Request<Incoming>) -> Result<Request, Cut> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(|_| Cut)?.to_bytes();
    Ok(Request { body, ..Request::of_head(&head) })
}

/// What a watch is told apart by: not the version that it starts from.
fn target_of(request: &Request) -> String {
    let selector = request.query.get("labelSelector").unwrap_or_default();
    format!("{} {selector}", request.path)
}

fn respond(link: Link, asked: &str, outcome: Outcome) -> hyper::Response<Content> {
    match outcome {
        Outcome::Answer(answer) => answer.into_response().map(BodyExt::boxed_unsync),
        Outcome::Stream(Stream { lines, timeout }) => {
            let until = Instant::now() + timeout.unwrap_or(Duration::from_secs(3600));
            let open = Open::new(link, asked);
            let stream = futures::stream::unfold((lines, open), move |(lines, open)| async move {
                let (line, lines) = next_line(&open.link, lines, until).await?;
                Some((line, (lines, open)))
            });
            let mut response = hyper::Response::new(StreamBody::new(stream).boxed_unsync());
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            response
        }
    }
}

/// A watch, for as long as its connection is open.
struct Open {
    link: Link,
    watch: (u32, String),
}

impl Open {
    fn new(link: Link, asked: &str) -> Self {
        let watch = (link.process, format!("{} at {}", asked, link.side.name()));
        *link.shared.lock().watches.entry(watch.clone()).or_default() += 1;
        Self { link, watch }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let watches = &mut self.link.shared.lock().watches;
        let open = watches.remove(&self.watch).unwrap_or_default();
        if open > 1 {
            watches.insert(self.watch.clone(), open - 1);
        }
    }
}

type Line = Result<Frame<Bytes>, Infallible>;

/// The next line of a watch, some milliseconds after it was sent.
async fn next_line(
    link: &Link,
    mut lines: UnboundedReceiver<Bytes>,
    until: Instant,
) -> Option<(Line, UnboundedReceiver<Bytes>)> {
    let line = timeout_at(until, lines.recv()).await.ok().flatten()?;
    let delay = {
        let core = &mut *link.shared.lock();
        let most = if core.dice.percent(core.weather.slow) { 900 } else { 12 };
        core.dice.below(most)
    };
    sleep(Duration::from_millis(delay)).await;
    link.shared.runs(link.process).await;
    Some((Ok(Frame::data(line)), lines))
}
