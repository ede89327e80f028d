//! A model server that sends the responses of a script in the format of one model API, and keeps
//! all requests for the test.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use serde_json::Value;

use super::http::{self, Reply, Request};
use super::script::{Requester, Script, Turn};

#[derive(Debug, Clone)]
pub(crate) struct ModelRequest {
    pub(crate) requester: Requester,
    pub(crate) body: Value,
    /// The body as received, before parsing.
    pub(crate) raw: Vec<u8>,
}

pub(crate) trait ModelApi: Send + Sync + 'static {
    /// The URL path to which clients post model requests.
    const PATH: &'static str;
    fn requester(body: &Value) -> Requester;
    /// The HTTP response for a turn of the script. `number` counts the model requests; responses
    /// use it for their ids, which have to be unique.
    fn respond(turn: &Turn, body: &Value, number: usize) -> Reply;
    /// The reply to a request that is not a model request.
    fn other(request: &Request) -> Reply;
}

/// A running model server.
pub(crate) struct Model {
    pub(crate) address: SocketAddr,
    requests: Arc<Mutex<Vec<ModelRequest>>>,
}

impl Model {
    pub(crate) fn start<D: ModelApi>(script: Script) -> Self {
        let requests = Arc::new(Mutex::new(Vec::<ModelRequest>::new()));
        let for_server = Arc::clone(&requests);
        let address = http::serve(move |request| {
            if request.method != "POST" || request.path != D::PATH {
                return D::other(request);
            }
            let body: Value = serde_json::from_slice(&request.body).unwrap();
            let requester = D::requester(&body);
            let mut requests = for_server.lock().unwrap();
            let n = requests.iter().filter(|before| before.requester == requester).count();
            requests.push(ModelRequest {
                requester,
                body: body.clone(),
                raw: request.body.clone(),
            });
            let number = requests.len();
            drop(requests);
            D::respond(&script.turn(requester, n), &body, number)
        });
        Self { address, requests }
    }

    /// The model requests so far.
    pub(crate) fn requests(&self) -> Vec<ModelRequest> {
        self.requests.lock().unwrap().clone()
    }
}
