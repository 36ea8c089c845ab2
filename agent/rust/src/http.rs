//! One kept-alive HTTP/1.1 connection for each session, driven by the session's own task.

use std::error::Error;
use std::future::{poll_fn, Future};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::task::{ready, Context, Poll};

use bytes::Bytes;
use flate2::write::GzDecoder;
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{HeaderValue, CONTENT_ENCODING};
use hyper::{Request, Response, Uri};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::OnceCell;

use crate::config::Config;
use crate::history::Sending;

/// Size of a connection's read buffer, which also bounds the head of a response.
const READ_BUFFER: usize = 8 << 10;

/// Where requests go.
#[derive(Debug)]
pub struct Target {
    pub tls: bool,
    /// A name or an address, an IPv6 one without its brackets.
    pub host: String,
    pub port: u16,
    /// As in the `Host` header.
    pub authority: HeaderValue,
    /// Path and query.
    pub path: Uri,
    addresses: OnceCell<Vec<SocketAddr>>,
}

impl Target {
    /// Of an absolute `http://` or `https://` URL.
    pub fn parse(url: &str) -> Option<Target> {
        let uri: Uri = url.parse().ok()?;
        let tls = match uri.scheme_str()? {
            "http" => false,
            "https" => cfg!(feature = "tls"),
            _ => return None,
        };
        let authority = uri.authority()?;
        let host = authority.host();
        if host.is_empty() || authority.as_str().contains('@') {
            return None;
        }
        Some(Target {
            tls,
            host: host.trim_matches(['[', ']']).to_owned(),
            port: authority.port_u16().unwrap_or(if tls { 443 } else { 80 }),
            authority: HeaderValue::from_str(authority.as_str()).ok()?,
            path: without_dots(uri.path_and_query()?.as_str()).parse().ok()?,
            addresses: OnceCell::new(),
        })
    }

    /// What a redirection to `location` leads to, absolute or not (RFC 3986, 5.2).
    pub fn redirected(&self, location: &str) -> Option<Target> {
        let location = location.split('#').next().unwrap_or_default();
        if location.find([':', '/', '?']).is_some_and(|at| location[at..].starts_with(':')) {
            return Target::parse(location);
        }
        let scheme = if self.tls { "https:" } else { "http:" };
        if location.starts_with("//") {
            return Target::parse(&[scheme, location].concat());
        }
        // What is kept of the path.
        let path = self.path.path();
        let base = match location.as_bytes().first() {
            None => self.path.path_and_query()?.as_str(),
            Some(b'/') => "",
            Some(b'?') => path,
            Some(_) => &path[..=path.rfind('/')?],
        };
        let authority = self.authority.to_str().ok()?;
        Target::parse(&[scheme, "//", authority, base, location].concat())
    }

    pub fn is_same_origin(&self, other: &Target) -> bool {
        (self.tls, &self.host, self.port) == (other.tls, &other.host, other.port)
    }

    async fn connect(&self) -> io::Result<TcpStream> {
        let look_up = || async {
            let found = tokio::net::lookup_host((self.host.as_str(), self.port)).await?;
            io::Result::Ok(found.collect())
        };
        let addresses = self.addresses.get_or_try_init(look_up).await?;
        let stream = TcpStream::connect(addresses.as_slice()).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

/// A path with its query, without its segments "." and ".." and what the latter go up from.
fn without_dots(text: &str) -> String {
    let (path, query) = text.split_at(text.find('?').unwrap_or(text.len()));
    let mut kept = Vec::new();
    let mut segments = path.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        match segment {
            "." => {}
            ".." => drop(kept.pop()),
            _ => kept.push(segment),
        }
        if matches!(segment, "." | "..") && segments.peek().is_none() {
            kept.push(""); // what they name is a folder
        }
    }
    format!("/{}{query}", kept.join("/"))
}

enum Transport {
    Plain(TcpStream),
    #[cfg(feature = "tls")]
    Tls(Box<tokio_rustls::client::TlsStream<TcpStream>>),
}

/// Calls a method of either transport.
macro_rules! transport {
    ($io:expr, $stream:ident => $call:expr) => {
        match &mut $io.transport {
            Transport::Plain(stream) => {
                let $stream = Pin::new(stream);
                $call
            }
            #[cfg(feature = "tls")]
            Transport::Tls(stream) => {
                let $stream = Pin::new(stream.as_mut());
                $call
            }
        }
    };
}

/// The transport as hyper wants it, which notes that something was received.
struct Io {
    transport: Transport,
    heard: Arc<AtomicBool>,
}

impl hyper::rt::Read for Io {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut cursor: hyper::rt::ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        // SAFETY: both buffers keep the same promise: what is not initialised is only written to.
        let mut buffer = ReadBuf::uninit(unsafe { cursor.as_mut() });
        let result = transport!(self, stream => stream.poll_read(cx, &mut buffer));
        let count = buffer.filled().len();
        if count > 0 {
            self.heard.store(true, Ordering::Relaxed);
        }
        // SAFETY: `count` bytes were written to the start of the buffer.
        unsafe { cursor.advance(count) };
        result
    }
}

impl hyper::rt::Write for Io {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        transport!(self, stream => stream.poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        transport!(self, stream => stream.poll_write_vectored(cx, slices))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        transport!(self, stream => stream.poll_flush(cx))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        transport!(self, stream => stream.poll_shutdown(cx))
    }
}

/// The data of a response's body, unpacked.
pub struct Payload {
    body: Incoming,
    gzip: Option<Box<GzDecoder<Vec<u8>>>>,
}

impl Payload {
    pub fn new(response: Response<Incoming>) -> Payload {
        let encoding = response.headers().get(CONTENT_ENCODING).map(HeaderValue::as_bytes);
        let packed = encoding.is_some_and(|name| name.to_ascii_lowercase().ends_with(b"gzip"));
        let gzip = packed.then(|| Box::new(GzDecoder::new(Vec::new())));
        Payload { body: response.into_body(), gzip }
    }

    /// The next data, which may be empty; `None` at the end.
    pub async fn next(&mut self) -> Option<Result<Bytes, Box<dyn Error + Send + Sync>>> {
        let data = poll_fn(|cx| loop {
            let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
            match frame.map(|frame| frame.map(|frame| frame.into_data())) {
                None => return Poll::Ready(None),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                Some(Ok(Ok(data))) => return Poll::Ready(Some(Ok(data))),
                Some(Ok(Err(_trailers))) => {}
            }
        });
        let data = match data.await? {
            Ok(data) => data,
            Err(error) => return Some(Err(error.into())),
        };
        let Some(gzip) = &mut self.gzip else {
            return Some(Ok(data));
        };
        let unpacked = gzip.write_all(&data).and_then(|()| gzip.flush());
        Some(unpacked.map(|()| std::mem::take(gzip.get_mut()).into()).map_err(Into::into))
    }
}

pub struct Connection {
    sender: SendRequest<Sending>,
    driver: Option<Pin<Box<http1::Connection<Io, Sending>>>>,
    heard: Arc<AtomicBool>,
    /// A response came on it before.
    pub used: bool,
}

impl Connection {
    pub async fn open(target: &Target, config: &Config) -> io::Result<Connection> {
        let stream = target.connect().await?;
        let transport = match target.tls {
            true => config.tls()?.wrap(stream, &target.host).await?,
            false => Transport::Plain(stream),
        };
        let heard = Arc::new(AtomicBool::new(false));
        let io = Io { transport, heard: heard.clone() };
        let (sender, driver) = http1::Builder::new()
            .read_buf_exact_size(Some(READ_BUFFER))
            .handshake(io)
            .await
            .map_err(io::Error::other)?;
        Ok(Connection { sender, driver: Some(Box::pin(driver)), heard, used: false })
    }

    /// Run the connection as long as `work` needs it.
    pub async fn drive<F: Future>(&mut self, work: F) -> F::Output {
        let mut work = std::pin::pin!(work);
        poll_fn(|cx| {
            if let Some(driver) = &mut self.driver {
                // What it ends with is told to whoever waits for the response or its body.
                if driver.as_mut().poll(cx).is_ready() {
                    self.driver = None;
                }
            }
            work.as_mut().poll(cx)
        })
        .await
    }

    /// True if another request can be sent on it, as far as can be known.
    pub async fn is_ready(&mut self) -> bool {
        // A look at the socket: has the server closed it?
        self.drive(std::future::ready(())).await;
        self.driver.is_some() && self.sender.is_ready()
    }

    /// Send a request; the response's head.
    pub async fn send(&mut self, request: Request<Sending>) -> hyper::Result<Response<Incoming>> {
        self.heard.store(false, Ordering::Relaxed);
        let response = self.sender.send_request(request);
        let response = self.drive(response).await;
        self.used |= response.is_ok();
        response
    }

    /// True if anything was received since the last request.
    pub fn has_heard(&self) -> bool {
        self.heard.load(Ordering::Relaxed)
    }
}

#[cfg(feature = "tls")]
pub use with_tls::Tls;

#[cfg(feature = "tls")]
mod with_tls {
    use super::{io, Arc, TcpStream, Transport};
    use tokio_rustls::rustls::crypto::ring;
    use tokio_rustls::rustls::pki_types::{pem::PemObject, CertificateDer, ServerName};
    use tokio_rustls::rustls::{ClientConfig, RootCertStore};
    use tokio_rustls::TlsConnector;

    const SYSTEM_CA_FILE: &str = "/etc/ssl/certs/ca-certificates.crt";

    pub struct Tls(TlsConnector);

    impl Tls {
        /// Trust the authorities in `ca_file`, or the system's.
        pub fn new(ca_file: Option<&str>) -> Result<Tls, String> {
            let mut roots = RootCertStore::empty();
            let system = std::env::var("SSL_CERT_FILE");
            let path = ca_file.unwrap_or(system.as_deref().unwrap_or(SYSTEM_CA_FILE));
            for certificate in
                CertificateDer::pem_file_iter(path).map_err(|error| error.to_string())?
            {
                let certificate = certificate.map_err(|error| error.to_string())?;
                let added = roots.add(certificate);
                if ca_file.is_some() {
                    added.map_err(|error| error.to_string())?;
                }
            }
            if roots.is_empty() {
                return Err("no certificate in it".into());
            }
            let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
                .with_safe_default_protocol_versions()
                .map_err(|error| error.to_string())?
                .with_root_certificates(roots)
                .with_no_client_auth();
            Ok(Tls(TlsConnector::from(Arc::new(config))))
        }

        pub(super) async fn wrap(&self, stream: TcpStream, host: &str) -> io::Result<Transport> {
            let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
            Ok(Transport::Tls(Box::new(self.0.connect(name, stream).await?)))
        }
    }
}

#[cfg(not(feature = "tls"))]
pub enum Tls {}

#[cfg(not(feature = "tls"))]
impl Tls {
    pub fn new(_: Option<&str>) -> Result<Tls, String> {
        Err("this build has no TLS".into())
    }

    async fn wrap(&self, _: TcpStream, _: &str) -> io::Result<Transport> {
        match *self {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets() {
        for (url, tls, host, port, authority, path) in [
            ("http://127.0.0.1:8080/v1/x", false, "127.0.0.1", 8080, "127.0.0.1:8080", "/v1/x"),
            ("http://a", false, "a", 80, "a", "/"),
            ("http://[::1]:9/v1?q", false, "::1", 9, "[::1]:9", "/v1?q"),
            #[cfg(feature = "tls")]
            ("https://a.example/v1", true, "a.example", 443, "a.example", "/v1"),
        ] {
            let target = Target::parse(url).unwrap();
            assert_eq!((target.tls, target.host.as_str(), target.port), (tls, host, port));
            assert_eq!(
                (target.authority, target.path.to_string()),
                (authority.parse().unwrap(), path.into())
            );
        }
        for bad in
            ["", "a", "/v1", "ftp://a/", "http://", "http://u:p@a/", "http://a b/", "http://:80/"]
        {
            assert!(Target::parse(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn redirections() {
        let target = Target::parse("http://a:1/v1/x").unwrap();
        let to = |location: &str| {
            let next = target.redirected(location)?;
            Some((
                next.authority.to_str().unwrap().to_owned(),
                next.path.to_string(),
                next.is_same_origin(&target),
            ))
        };
        assert_eq!(to("/y?z"), Some(("a:1".into(), "/y?z".into(), true)));
        assert_eq!(to("//b:2/y"), Some(("b:2".into(), "/y".into(), false)));
        assert_eq!(to("http://a:1/y"), Some(("a:1".into(), "/y".into(), true)));
        assert_eq!(to("ftp://a/y"), None);
        assert_eq!(to("y:1/z"), None);
        // RFC 3986, 5.4
        let base = Target::parse("http://a/b/c/d;p?q").unwrap();
        for (location, path) in [
            ("g", "/b/c/g"),
            ("./g", "/b/c/g"),
            ("g/", "/b/c/g/"),
            ("/g", "/g"),
            ("?y", "/b/c/d;p?y"),
            ("g?y", "/b/c/g?y"),
            ("g;x?y#s", "/b/c/g;x?y"),
            ("", "/b/c/d;p?q"),
            ("#s", "/b/c/d;p?q"),
            (".", "/b/c/"),
            ("..", "/b/"),
            ("../g", "/b/g"),
            ("../..", "/"),
            ("../../../g", "/g"),
            ("/./g", "/g"),
            ("/../g", "/g"),
            ("g.", "/b/c/g."),
            ("..g", "/b/c/..g"),
            ("./g/.", "/b/c/g/"),
            ("g/../h", "/b/c/h"),
            ("g//../h", "/b/c/g/h"),
            ("g?y/../x", "/b/c/g?y/../x"),
            ("http://a/x/../y", "/y"),
        ] {
            let next = base.redirected(location).unwrap();
            assert_eq!(next.path.to_string(), path, "{location}");
            assert!(next.is_same_origin(&base));
        }
    }
}
