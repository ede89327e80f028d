//! The socket over which `midcourse run` passes connections to its proxy process.
//!
//! `run` accepts all connections, so that tunnels outlive the proxy process. What the proxy has to
//! read goes through this channel as an open socket. `run` also keeps the receiving end open: what
//! it sends while the proxy is being restarted waits for the new process.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};

use super::connect::Head;

/// What `run` passes to the proxy.
#[derive(Debug)]
pub(crate) enum Message {
    /// The listening socket, which the proxy uses when `run` is gone.
    Listener(TcpListener),
    /// A connection of which `run` has already read the first bytes.
    Connection(TcpStream, Vec<u8>),
    /// A tunnel that is in use while `run` ends: the connections of client and server.
    Tunnel(TcpStream, TcpStream),
    /// The command has ended, but processes that it started still use the port.
    CommandEnded,
}

/// One end of the channel.
#[derive(Debug)]
pub(crate) struct Channel(OwnedFd);

impl From<OwnedFd> for Channel {
    fn from(socket: OwnedFd) -> Self {
        Self(socket)
    }
}

impl Channel {
    pub(crate) fn pair() -> io::Result<(Self, Self)> {
        // Messages have to stay whole even if the receiver is killed. macOS has no sequenced
        // sockets, but its datagram sockets keep the order too.
        #[cfg(target_os = "macos")]
        let (kind, flags) = (SocketType::DGRAM, SocketFlags::empty());
        #[cfg(not(target_os = "macos"))]
        let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
        let (sender, receiver) = socketpair(AddressFamily::UNIX, kind, flags, None)?;
        Ok((Self(sender), Self(receiver)))
    }

    /// The receiving end, which the proxy process has as its standard input.
    pub(super) fn inherited() -> io::Result<Self> {
        Ok(Self(io::stdin().as_fd().try_clone_to_owned()?))
    }

    pub(crate) fn try_clone(&self) -> io::Result<OwnedFd> {
        self.0.try_clone()
    }

    pub(crate) fn send(&self, message: &Message) -> io::Result<()> {
        let (kind, sockets, bytes): (u8, Vec<BorrowedFd<'_>>, &[u8]) = match message {
            Message::Listener(listener) => (b'l', vec![listener.as_fd()], &[]),
            Message::Connection(stream, read) => (b'c', vec![stream.as_fd()], read),
            Message::Tunnel(client, server) => (b't', vec![client.as_fd(), server.as_fd()], &[]),
            Message::CommandEnded => (b'e', Vec::new(), &[]),
        };
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !sockets.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(&sockets)) {
            return Err(io::Error::other("no space for the sockets"));
        }
        let parts = [IoSlice::new(std::slice::from_ref(&kind)), IoSlice::new(bytes)];
        sendmsg(&self.0, &parts, &mut ancillary, SendFlags::empty())?;
        Ok(())
    }

    /// Waits at most this long until there is a message to receive. Returns whether there is one.
    pub(super) fn is_readable_within(&self, timeout: Duration) -> bool {
        let mut polled = [PollFd::new(&self.0, PollFlags::IN)];
        let timeout = Timespec::try_from(timeout).ok();
        poll(&mut polled, timeout.as_ref()).is_ok_and(|ready| ready > 0)
    }

    /// Waits for the next message. `None` if the other end is closed.
    pub(super) fn receive(&self) -> io::Result<Option<Message>> {
        let mut buffer = vec![0; Head::MAX_LEN + 64];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let parts = &mut [IoSliceMut::new(&mut buffer)];
        #[cfg(target_os = "macos")]
        let flags = RecvFlags::empty();
        #[cfg(not(target_os = "macos"))]
        let flags = RecvFlags::CMSG_CLOEXEC;
        let length = loop {
            match recvmsg(&self.0, parts, &mut ancillary, flags) {
                Ok(received) => break received.bytes,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        };
        let mut sockets = ancillary.drain().flat_map(|message| match message {
            RecvAncillaryMessage::ScmRights(sockets) => sockets.collect::<Vec<OwnedFd>>(),
            _ => Vec::new(),
        });
        let (first, second) = (sockets.next(), sockets.next());
        drop(sockets);
        let Some((kind, read)) = buffer.get(..length).and_then(<[u8]>::split_first) else {
            return Ok(None);
        };
        let message = match (kind, first, second) {
            (b'l', Some(listener), None) => Message::Listener(listener.into()),
            (b'c', Some(stream), None) => Message::Connection(stream.into(), read.to_vec()),
            (b't', Some(client), Some(server)) => Message::Tunnel(client.into(), server.into()),
            (b'e', None, None) => Message::CommandEnded,
            _ => return Err(io::Error::other("unknown message")),
        };
        Ok(Some(message))
    }
}
