//! What the plugins of a run and of its child runs share: the monitor, and the callback for
//! problems (`on_trouble`).

use std::sync::Arc;

use midcourse::Monitor;

use crate::guard::guard;
use crate::trouble::Trouble;

#[derive(Clone)]
pub(crate) struct Setup {
    pub(crate) monitor: Monitor,
    pub(crate) on_trouble: Arc<dyn Fn(&Trouble) + Send + Sync>,
}

impl Setup {
    pub(crate) fn report(&self, trouble: &Trouble) {
        // A panic of the callback is ignored: it could only be reported to the callback itself.
        let _ = guard(|| (self.on_trouble)(trouble));
    }
}
