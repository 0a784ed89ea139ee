//! `/api/v1/read`: remote read, by which a Prometheus answers queries over what khz remembers. The request and the answer are
//! protobuf in snappy (docs/remote.md).

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, header};
use axum::response::Response;
use khz_promql::QueryError;
use khz_remote::message::ReadRequest;
use khz_remote::{RemoteError, read};

use crate::bodies;
use crate::clock;
use crate::limits::{QUERY_TIMEOUT, READ_BYTES_MAX};
use crate::pages::{self, Writer};
use crate::prometheus::evaluate::{Asked, evaluate};
use crate::prometheus::failure::Failure;
use crate::prometheus::form::client;
use crate::routes::App;

/// Bytes of the answer that are passed on together.
const PAGE_BYTES: usize = 64 << 10;

/// `/api/v1/read`
pub(crate) async fn read_remotely(
    State(app): State<Arc<App>>,
    request: Request,
) -> Result<Response, Failure> {
    if *request.method() != Method::POST {
        return Err(Failure::bad(
            "a request to read remotely is the body of a POST request (docs/remote.md)",
        ));
    }
    let client = client(&request);
    let caller = request.extensions().get().cloned();
    let now = clock::wall_milliseconds();
    let body = bodies::whole(request, READ_BYTES_MAX, "a request to read").await?;
    let packed = evaluate(&app, Asked { client, caller, now, time: QUERY_TIMEOUT }, move |source, stop| {
        let asked = ReadRequest::unpack(&body).map_err(meant)?;
        let mut packed = read(source, &asked).and_then(|answer| answer.pack());
        // Packing takes room for bytes that do not become smaller: megabytes that nobody would count.
        let _ = packed.as_mut().map(Vec::shrink_to_fit);
        // Unpacked it has held more; where there is no answer, because there is too much.
        stop.has_held(packed.as_ref().map_or(usize::MAX, Vec::len));
        packed.map_err(meant)
    });
    let packed = packed.await?;
    let write = async move |mut writer: Writer| {
        // The answer counts until a client that reads slowly has it.
        writer.hold((packed.capacity() + PAGE_BYTES) as u64)?;
        for page in packed.chunks(PAGE_BYTES) {
            writer.send(page.to_vec()).await?;
        }
        Ok(writer)
    };
    let mut response = pages::answer(&app, "application/x-protobuf", write).await?;
    response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("snappy"));
    Ok(response)
}

/// The same error as that of a query.
fn meant(error: RemoteError) -> QueryError {
    match error {
        RemoteError::Query(error) => error,
        other => QueryError::Bad(other.to_string()),
    }
}
