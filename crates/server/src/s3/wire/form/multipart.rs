//! Reads a `multipart/form-data` body up to its file, and streams the file without buffering it.
//!
//! ```text
//! --boundary\r\n  Content-Disposition: form-data; name="key"\r\n\r\n  value  \r\n      fields: at most 20 KiB
//! --boundary\r\n  Content-Disposition: form-data; name="file"; …\r\n\r\n  bytes  \r\n  file: streamed
//! --boundary--\r\n                                                                   the rest is skipped
//! ```
//!
//! The file ends without an error only after the form's closing delimiter has been read: a truncated form stores
//! nothing.
//!
//! Source: RFC 7578, "Returning Values from Forms: multipart/form-data".

use std::{
    ops::RangeInclusive,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::{Buf, Bytes, BytesMut};
use futures::{Stream, StreamExt};
use http::{HeaderMap, Method, header::CONTENT_TYPE};
use memchr::memmem::{self, Finder};
use s3s::{
    Body, S3Result, StdError, s3_error,
    stream::{ByteStream, DynByteStream, RemainingLength},
};

use super::fields::FormFields;
use crate::s3::wire::{
    error::{self, ErrorDetail, detailed},
    form_error::FormError,
};

/// Maximum bytes of a form outside its file, as in S3.
const MAX_HEAD: usize = 20 * 1024;

/// Maximum length of a boundary. RFC 2046 allows 70, and some clients use more.
const MAX_BOUNDARY: usize = 200;

/// Maximum time that a client may stall between two fields, or within a file that is collected.
const TIMEOUT: Duration = Duration::from_secs(60);

const FORM: &str = "multipart/form-data";

/// Returns true if the request body is an HTML form with files.
pub(in crate::s3) fn is_form(method: &Method, headers: &HeaderMap) -> bool {
    *method == Method::POST && content_type(headers).is_some_and(|(kind, _)| kind.eq_ignore_ascii_case(FORM))
}

/// Returns the media type of a body and its parameters.
fn content_type(headers: &HeaderMap) -> Option<(&str, &str)> {
    let text = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    let (kind, parameters) = text.split_once(';').unwrap_or((text, ""));
    Some((kind.trim(), parameters))
}

fn boundary_of(headers: &HeaderMap) -> Result<String, FormError> {
    let (_, parameters) = content_type(headers).ok_or(FormError::Malformed)?;
    let boundary = parameter(parameters, "boundary").ok_or(FormError::Malformed)?;
    if (1..=MAX_BOUNDARY).contains(&boundary.len()) { Ok(boundary) } else { Err(FormError::Malformed) }
}

/// Returns the first parameter with this name in `; name="value"; name=value`.
fn parameter(parameters: &str, wanted: &str) -> Option<String> {
    let mut rest = parameters;
    loop {
        rest = rest.trim_start_matches([';', ' ', '\t']);
        let (name, after) = rest.split_once('=')?;
        let (value, after) = match after.strip_prefix('"') {
            Some(quoted) => unquote(quoted)?,
            None => {
                let (value, after) = after.split_once(';').unwrap_or((after, ""));
                (value.trim().to_owned(), after)
            }
        };

        if name.trim().eq_ignore_ascii_case(wanted) {
            return Some(value);
        }
        rest = after;
    }
}

/// Splits the text at the closing quote. A backslash escapes only a quote, since some browsers put unescaped Windows
/// paths into the value.
fn unquote(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut rest = text;
    loop {
        let at = rest.find('"')?;
        let before = rest.get(..at)?;
        let after = rest.get(at + 1..)?;
        match before.strip_suffix('\\') {
            Some(before) => {
                value.push_str(before);
                value.push('"');
            }
            None => {
                value.push_str(before);
                return Some((value, after));
            }
        }
        rest = after;
    }
}

/// Headers of a part.
struct PartHead {
    name: String,
    file_name: String,
    content_type: Option<String>,
}

impl PartHead {
    fn parse(bytes: &[u8]) -> Result<Self, FormError> {
        let text = str::from_utf8(bytes).map_err(|_| FormError::Malformed)?;
        let header = |wanted: &str| {
            let mut headers = text.split("\r\n").filter_map(|line| line.split_once(':'));
            let found = headers.find(|(name, _)| name.trim().eq_ignore_ascii_case(wanted));
            found.map(|(_, value)| value.trim())
        };

        let disposition = header("content-disposition").ok_or(FormError::Malformed)?;
        let (kind, parameters) = disposition.split_once(';').ok_or(FormError::Malformed)?;
        if !kind.trim().eq_ignore_ascii_case("form-data") {
            return Err(FormError::Malformed);
        }

        let name = parameter(parameters, "name").ok_or(FormError::Malformed)?;
        let path = parameter(parameters, "filename").unwrap_or_default();
        Ok(Self {
            name,
            // S3 takes the last segment of a path as the file name.
            file_name: path.rsplit(['/', '\\']).next().unwrap_or_default().to_owned(),
            content_type: header("content-type").map(str::to_owned),
        })
    }
}

/// A form read up to the bytes of its file.
pub(crate) struct FormHead {
    pub(crate) fields: FormFields,
    /// The file's name without its path; empty if the form gives none.
    pub(crate) file_name: String,
    pub(crate) file: FormFile,
}

impl FormHead {
    /// Reads the fields of a form.
    pub(crate) async fn read(headers: &HeaderMap, body: Body) -> S3Result<Self> {
        let boundary = boundary_of(headers)?;
        let mut reader = FormHeadReader::new(body, &boundary);
        let mut fields = FormFields::default();
        reader.expect_delimiter().await?;
        loop {
            let part = reader.part_head().await?;
            if part.name.eq_ignore_ascii_case("file") {
                let file = reader.into_file(part.content_type);
                return Ok(Self { fields, file_name: part.file_name, file });
            }
            let value = reader.value().await?;
            fields.push(part.name, value)?;
        }
    }
}

/// Reads a form up to its file.
struct FormHeadReader {
    body: Body,
    /// Received bytes that are not consumed yet.
    buffer: BytesMut,
    /// Bytes consumed, including the line break inserted before the first delimiter.
    read: usize,
    delimiter: Finder<'static>,
}

/// Inserted before a form's first delimiter, the only one that a line break does not precede.
const LINE_BREAK: &[u8] = b"\r\n";

impl FormHeadReader {
    fn new(body: Body, boundary: &str) -> Self {
        let delimiter = Finder::new(&format!("\r\n--{boundary}")).into_owned();
        Self { body, buffer: BytesMut::from(LINE_BREAK), read: 0, delimiter }
    }

    /// Reads the delimiter at the beginning of the form.
    async fn expect_delimiter(&mut self) -> S3Result<()> {
        let len = self.delimiter.needle().len();
        while self.buffer.len() < len {
            self.receive().await?;
        }
        if !self.buffer.starts_with(self.delimiter.needle()) {
            return Err(FormError::Malformed.into());
        }
        self.buffer.advance(len);
        self.read = len;
        Ok(())
    }

    /// Reads the headers of the part after a delimiter.
    async fn part_head(&mut self) -> S3Result<PartHead> {
        while self.buffer.len() < 2 {
            self.receive().await?;
        }
        if self.buffer.starts_with(b"--") {
            return Err(detailed(
                s3_error!(InvalidArgument, "POST requires exactly one file upload per request."),
                vec![
                    ErrorDetail::new("ArgumentName", "file".to_owned()),
                    ErrorDetail::new("ArgumentValue", "0".to_owned()),
                ],
            ));
        }

        if !self.buffer.starts_with(LINE_BREAK) {
            return Err(FormError::Malformed.into());
        }
        let head = self.until(&Finder::new(b"\r\n\r\n")).await?;
        Ok(PartHead::parse(&head)?)
    }

    /// Reads the value of a field, up to the next delimiter.
    async fn value(&mut self) -> S3Result<String> {
        let delimiter = self.delimiter.clone();
        let value = self.until(&delimiter).await?;
        Ok(String::from_utf8(value.into()).map_err(|_| FormError::Malformed)?)
    }

    /// Consumes all bytes up to a pattern, and the pattern. Returns the bytes before it.
    async fn until(&mut self, pattern: &Finder<'_>) -> S3Result<BytesMut> {
        loop {
            let found = pattern.find(&self.buffer);
            let read = self.read + found.unwrap_or(self.buffer.len());
            if read > MAX_HEAD {
                return Err(FormError::HeadTooLarge.into());
            }
            if let Some(at) = found {
                let before = self.buffer.split_to(at);
                self.buffer.advance(pattern.needle().len());
                self.read = read + pattern.needle().len();
                return Ok(before);
            }
            self.receive().await?;
        }
    }

    async fn receive(&mut self) -> S3Result<()> {
        let next = tokio::time::timeout(TIMEOUT, self.body.next()).await;
        let next = next.map_err(|_| error::request_timeout())?;
        let bytes = next.ok_or(FormError::Malformed)?.map_err(|failed| error::from_body(&*failed))?;
        self.buffer.extend_from_slice(&bytes);
        Ok(())
    }

    fn into_file(self, content_type: Option<String>) -> FormFile {
        FormFile {
            content_type,
            before: (self.read - LINE_BREAK.len()) as u64,
            body: self.body,
            buffer: self.buffer.freeze(),
            delimiter: self.delimiter,
            stage: FormFileStage::File,
            allowed: 0..=u64::MAX,
            received: 0,
        }
    }
}

/// State after the head of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FormFileStage {
    File,
    /// After a delimiter: the next two bytes decide if it closes the form.
    Delimiter,
    /// A part after the file, which S3 ignores.
    IgnoredPart,
    /// Bytes after the closing delimiter.
    Epilogue,
    Ended,
}

/// Streams the bytes of a form's file.
pub(in crate::s3) struct FormFile {
    /// Content type of the file in the form.
    pub(in crate::s3) content_type: Option<String>,
    /// Bytes of the form that precede the file.
    before: u64,
    body: Body,
    buffer: Bytes,
    delimiter: Finder<'static>,
    stage: FormFileStage,
    allowed: RangeInclusive<u64>,
    /// Bytes of the file received so far.
    received: u64,
}

impl FormFile {
    /// Makes the stream fail if the file's length is not within `allowed`.
    pub(crate) fn with_allowed_len(self, allowed: RangeInclusive<u64>) -> Self {
        Self { allowed, ..self }
    }

    /// Converts the bytes to a body.
    pub(in crate::s3) fn into_body(self) -> Body {
        let stream: DynByteStream = Box::pin(self);
        Body::from(stream)
    }

    /// Collects the bytes. The caller bounds their number by the length of the form.
    pub(in crate::s3) async fn collect(mut self) -> S3Result<Bytes> {
        let mut collected = BytesMut::new();
        loop {
            let next = tokio::time::timeout(TIMEOUT, self.next()).await;
            match next.map_err(|_| error::request_timeout())? {
                Some(bytes) => {
                    collected.extend_from_slice(&bytes.map_err(|failed| error::from_body(&*failed))?);
                }
                None => return Ok(collected.freeze()),
            }
        }
    }

    /// Returns the difference between the lengths of the form and of its file, on the assumption that the form ends
    /// as nearly all do: with the file, the closing delimiter and a line break.
    pub(in crate::s3) fn frame_len(&self) -> u64 {
        self.before + self.delimiter.needle().len() as u64 + 4
    }

    /// Processes the received bytes. Returns bytes of the file, or `None` if more must be received.
    fn advance(&mut self) -> Result<Option<Bytes>, FormError> {
        loop {
            match self.stage {
                FormFileStage::File => {
                    let (bytes, is_last) = self.split();
                    self.received += bytes.len() as u64;
                    if self.received > *self.allowed.end() {
                        return Err(FormError::FileTooLarge { max: *self.allowed.end() });
                    }
                    if is_last {
                        self.stage = FormFileStage::Delimiter;
                        if self.received < *self.allowed.start() {
                            let min = *self.allowed.start();
                            let len = self.received;
                            return Err(FormError::FileTooSmall { min, len });
                        }
                    }

                    if !bytes.is_empty() {
                        return Ok(Some(bytes));
                    }
                    if !is_last {
                        return Ok(None);
                    }
                }
                FormFileStage::Delimiter => match self.buffer.get(..2) {
                    Some(b"--") => self.stage = FormFileStage::Epilogue,
                    Some(_) => self.stage = FormFileStage::IgnoredPart,
                    None => return Ok(None),
                },
                FormFileStage::IgnoredPart => match self.split() {
                    (_, true) => self.stage = FormFileStage::Delimiter,
                    (_, false) => return Ok(None),
                },
                FormFileStage::Epilogue | FormFileStage::Ended => {
                    self.buffer.clear();
                    return Ok(None);
                }
            }
        }
    }

    /// Splits off the bytes before the next delimiter, consumes the delimiter, and returns true. If there is none,
    /// splits off all bytes that cannot be part of a delimiter, and returns false.
    fn split(&mut self) -> (Bytes, bool) {
        let needle = self.delimiter.needle();
        match self.delimiter.find(&self.buffer) {
            Some(at) => {
                let before = self.buffer.split_to(at);
                self.buffer.advance(needle.len());
                (before, true)
            }
            None => {
                let from = self.buffer.len().saturating_sub(needle.len() - 1);
                let tail = self.buffer.get(from..).unwrap_or_default();
                let begins = memmem::find_iter(tail, b"\r")
                    .find(|at| tail.get(*at..).is_some_and(|end| needle.starts_with(end)));
                let kept = begins.map_or(self.buffer.len(), |at| from + at);
                (self.buffer.split_to(kept), false)
            }
        }
    }

    fn receive(&mut self, bytes: Bytes) {
        if self.buffer.is_empty() {
            self.buffer = bytes;
            return;
        }
        let mut joined = BytesMut::with_capacity(self.buffer.len() + bytes.len());
        joined.extend_from_slice(&self.buffer);
        joined.extend_from_slice(&bytes);
        self.buffer = joined.freeze();
    }

    fn fail<T>(&mut self, error: StdError) -> Poll<Option<Result<T, StdError>>> {
        self.stage = FormFileStage::Ended;
        Poll::Ready(Some(Err(error)))
    }
}

impl Stream for FormFile {
    type Item = Result<Bytes, StdError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            match self.advance() {
                Ok(Some(bytes)) => return Poll::Ready(Some(Ok(bytes))),
                Ok(None) if self.stage == FormFileStage::Ended => return Poll::Ready(None),
                Ok(None) => {}
                Err(error) => return self.fail(error.into()),
            }
            match ready!(Pin::new(&mut self.body).poll_next(cx)) {
                Some(Ok(bytes)) => self.receive(bytes),
                Some(Err(error)) => return self.fail(error),
                None if self.stage == FormFileStage::Epilogue => self.stage = FormFileStage::Ended,
                None => return self.fail(FormError::Malformed.into()),
            }
        }
    }
}

impl ByteStream for FormFile {
    fn remaining_length(&self) -> RemainingLength {
        RemainingLength::unknown()
    }
}

#[cfg(test)]
mod tests {
    use futures::TryStreamExt;
    use http::HeaderValue;
    use hyper::body::Frame;
    use rand::{Rng, SeedableRng, rngs::StdRng};

    use super::*;

    const HEAD: &str = "--b\r\nContent-Disposition: form-data; name=\"key\"\r\n\r\nk\r\n\
        --b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f\"\r\nContent-Type: text/x\r\n\r\n";

    fn headers(content_type: &str) -> HeaderMap {
        [(CONTENT_TYPE, HeaderValue::from_str(content_type).unwrap())].into_iter().collect()
    }

    /// Creates a body that arrives in pieces of these sizes, which repeat.
    fn body(bytes: &[u8], sizes: &[usize]) -> Body {
        let mut rest = Bytes::copy_from_slice(bytes);
        let mut pieces = Vec::new();
        for size in sizes.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            pieces.push(Ok::<_, StdError>(rest.split_to((*size).min(rest.len()))));
        }
        Body::http_body(http_body_util::StreamBody::new(futures::stream::iter(pieces).map_ok(Frame::data)))
    }

    async fn read(content_type: &str, form: &[u8], sizes: &[usize]) -> Result<(FormFields, Bytes), String> {
        let code = |error: s3s::S3Error| error.code().as_str().to_owned();
        let head = FormHead::read(&headers(content_type), body(form, sizes)).await.map_err(code)?;
        let pieces: Result<Vec<Bytes>, StdError> = head.file.try_collect().await;
        let pieces = pieces.map_err(|error| code(error::from_body(&*error)))?;
        Ok((head.fields, pieces.concat().into()))
    }

    async fn file_of(form: &[u8], sizes: &[usize]) -> Result<Bytes, String> {
        read("multipart/form-data; boundary=b", form, sizes).await.map(|(_, file)| file)
    }

    #[tokio::test]
    async fn a_file_comes_out_as_it_went_in_however_its_form_is_cut() {
        let mut rng = StdRng::seed_from_u64(7);
        for _ in 0..300 {
            // Only bytes that occur in delimiters, to provoke many partial matches.
            let len = rng.random_range(0..200);
            let file: Vec<u8> = (0..len).map(|_| *b"\r\n--bx".get(rng.random_range(0..6)).unwrap()).collect();
            if memmem::find(&file, b"\r\n--b").is_some() || file.ends_with(b"\r\n--") {
                continue;
            }

            let endings = ["--b--\r\n", "--b--", "--b--\r\nepilogue", "--b\r\n\r\nignored\r\n--b--\r\n"];
            let ending = endings.get(rng.random_range(0..4)).unwrap();
            let form = [HEAD.as_bytes(), &file, b"\r\n", ending.as_bytes()].concat();
            let sizes: Vec<usize> = (0..5).map(|_| rng.random_range(1..40)).collect();
            assert_eq!(file_of(&form, &sizes).await.unwrap(), file, "{sizes:?}");
        }
    }

    #[tokio::test]
    async fn a_form_that_breaks_off_has_no_file() {
        let form = format!("{HEAD}bytes\r\n--b\r\n\r\nignored\r\n--b--");
        for end in 0..form.len() {
            let cut = form.as_bytes().get(..end).unwrap();
            assert_eq!(file_of(cut, &[7]).await, Err("MalformedPOSTRequest".to_owned()), "{end}");
        }
        assert!(file_of(form.as_bytes(), &[7]).await.is_ok());
    }

    #[tokio::test]
    async fn what_is_no_form_is_refused() {
        let form = format!("{HEAD}x\r\n--b--\r\n");
        for content_type in [
            "multipart/form-data",
            "multipart/form-data; boundary=",
            "multipart/form-data; boundary=\"b",
            "multipart/form-data; boundary=c",
            "multipart/form-data; bound=b",
        ] {
            let refused = read(content_type, form.as_bytes(), &[100]).await.err();
            assert_eq!(refused.as_deref(), Some("MalformedPOSTRequest"), "{content_type}");
        }

        for form in [
            "",
            "x--b\r\n",
            "--b",
            "--bx\r\n",
            "--b\r\n\r\nvalue\r\n--b--\r\n",
            "--b\r\nContent-Disposition: attachment; name=\"key\"\r\n\r\nx\r\n--b--\r\n",
            "--b\r\nContent-Disposition: form-data\r\n\r\nx\r\n--b--\r\n",
            "--b\r\nContent-Disposition: form-data; name=key\r\n\r\nx",
        ] {
            assert_eq!(file_of(form.as_bytes(), &[100]).await.err().as_deref(), Some("MalformedPOSTRequest"));
        }
        let no_file = "--b\r\nContent-Disposition: form-data; name=key\r\n\r\nx\r\n--b--\r\n";
        assert_eq!(file_of(no_file.as_bytes(), &[100]).await.unwrap_err(), "InvalidArgument");
    }

    #[tokio::test]
    async fn fields_before_the_file_have_a_limit() {
        let form = |len: usize| {
            let field = "--b\r\nContent-Disposition: form-data; name=\"x\"\r\n\r\n";
            format!("{field}{}\r\n{HEAD}file\r\n--b--\r\n", "v".repeat(len))
        };
        assert_eq!(file_of(form(20_000).as_bytes(), &[1000]).await.unwrap(), "file");
        for sizes in [1000, 1 << 20] {
            let refused = file_of(form(21_000).as_bytes(), &[sizes]).await.unwrap_err();
            assert_eq!(refused, "MaxPostPreDataLengthExceededError");
        }

        // An unterminated name is not buffered without limit.
        let endless = HEAD.replace("name=\"file\"", &"n".repeat(1 << 16));
        assert_eq!(
            file_of(endless.as_bytes(), &[512]).await.unwrap_err(),
            "MaxPostPreDataLengthExceededError"
        );
    }

    #[tokio::test]
    async fn a_file_of_another_size_than_allowed_fails() {
        for (allowed, expected) in [
            (0..=4, Some(FormError::FileTooLarge { max: 4 })),
            (6..=9, Some(FormError::FileTooSmall { min: 6, len: 5 })),
            (5..=5, None),
        ] {
            for sizes in [1, 1000] {
                let form = format!("{HEAD}bytes\r\n--b--\r\n");
                let headers = headers("multipart/form-data; boundary=b");
                let head = FormHead::read(&headers, body(form.as_bytes(), &[sizes])).await.unwrap();
                let file = head.file.with_allowed_len(allowed.clone());
                let pieces: Result<Vec<Bytes>, StdError> = file.try_collect().await;
                let failed = pieces.err().map(|error| *error.downcast_ref::<FormError>().unwrap());
                assert_eq!(failed, expected);
            }
        }
    }

    #[test]
    fn parameters_are_read_as_browsers_write_them() {
        let file_name = |disposition: &str| {
            PartHead::parse(format!("\r\nContent-Disposition: {disposition}").as_bytes()).unwrap().file_name
        };
        for (disposition, expected) in [
            (r#"form-data; name="file"; filename="a b.txt""#, "a b.txt"),
            (r#"form-data; filename=a.txt; name=file"#, "a.txt"),
            (r#"form-data; name="file"; filename="C:\dir\a.txt""#, "a.txt"),
            (r#"form-data; name="file"; filename="../../a.txt""#, "a.txt"),
            (
                r#"form-data; name="file"; filename="say \"x\"; name=\"key\".txt""#,
                r#"say "x"; name="key".txt"#,
            ),
            (r#"form-data; name="file"; filename="ключ""#, "ключ"),
            (r#"form-data; name="file"; filename="a/..""#, ".."),
            (r#"form-data; name="file"; filename="""#, ""),
            (r#"form-data; name="file""#, ""),
        ] {
            assert_eq!(file_name(disposition), expected, "{disposition}");
        }
    }

    #[test]
    fn a_form_is_told_by_its_type() {
        for (content_type, expected) in [
            ("multipart/form-data; boundary=x", true),
            ("Multipart/Form-Data;boundary=\"x\"", true),
            ("multipart/form-data", true),
            ("multipart/mixed; boundary=x", false),
            ("application/xml", false),
        ] {
            assert_eq!(is_form(&Method::POST, &headers(content_type)), expected, "{content_type}");
        }
        assert!(!is_form(&Method::PUT, &headers("multipart/form-data; boundary=x")));
    }
}
