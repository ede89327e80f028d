//! A model that answers from a script, in the dialect of one API, and keeps all that it was asked.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use serde_json::Value;

use super::http::{self, Reply, Request};
use super::script::{Asker, Script, Turn};

/// A request to the model.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) asker: Asker,
    pub(crate) body: Value,
    /// The body as it came.
    pub(crate) raw: Vec<u8>,
}

/// How an API speaks.
pub(crate) trait Dialect: Send + Sync + 'static {
    /// Where the model is asked.
    const PATH: &'static str;
    /// Who asks.
    fn asker(body: &Value) -> Asker;
    /// An answer. The number tells all answers of a trial apart.
    fn answer(turn: &Turn, body: &Value, number: usize) -> Reply;
    /// The answer to anything but a question to the model.
    fn beside(request: &Request) -> Reply;
}

/// A model that is up.
pub(crate) struct Model {
    pub(crate) address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Model {
    pub(crate) fn start<D: Dialect>(script: Script) -> Self {
        let asked = Arc::new(Mutex::new(Vec::<Asked>::new()));
        let kept = Arc::clone(&asked);
        let address = http::serve(move |request| {
            if request.method != "POST" || request.path != D::PATH {
                return D::beside(request);
            }
            let body: Value = serde_json::from_slice(&request.body).unwrap();
            let asker = D::asker(&body);
            let mut kept = kept.lock().unwrap();
            let n = kept.iter().filter(|before| before.asker == asker).count();
            kept.push(Asked { asker, body: body.clone(), raw: request.body.clone() });
            let number = kept.len();
            drop(kept);
            D::answer(&script.turn(asker, n), &body, number)
        });
        Self { address, asked }
    }

    /// What it was asked until now.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}
