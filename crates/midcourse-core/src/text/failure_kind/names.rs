//! Names and codes that identify the kind of a failure on their own: exception types, errno names,
//! HTTP status codes and the error codes of web APIs.

use phf::phf_map;

use super::FailureKind;
use FailureKind::{
    BadArguments, Check, Conflict, MissingPackage, MissingProgram, NotFound, Outage, Permission,
    Resource, Syntax, Timeout, UnknownName, UnknownTool,
};

/// Exception types and errno names, without the package or namespace before them.
static NAMES: phf::Map<&'static str, FailureKind> = phf_map! {
    "PermissionError" | "EACCES" | "EPERM" | "EROFS" | "AccessDeniedException" | "AccessDenied"
        | "UnauthorizedAccessException" | "InsufficientPrivilege" | "Forbidden" | "Unauthorized"
        | "AuthenticationError" | "PermissionDeniedError" | "PermissionDenied"
        | "NoCredentialsError" | "ExpiredToken" | "UnauthorizedOperation" | "InvalidPassword"
        | "AuthorizationFailed" | "UnrecognizedClientException" | "InvalidClientTokenId"
        | "AuthenticationFailed" => Permission,
    "FileNotFoundError" | "ENOENT" | "NoSuchFileException" | "FileNotFoundException" | "NotFound"
        | "NoSuchKey" | "NoSuchBucket" | "NoSuchEntity" | "ResourceNotFoundException"
        | "DoesNotExist" | "ObjectDoesNotExist" | "RecordNotFound" | "NotFoundError" | "ENOTDIR"
        | "DirectoryNotFoundException" | "ItemNotFoundException" | "TemplateNotFound" | "ResourceNotFound" => NotFound,
    "ModuleNotFoundError" | "LoadError" | "NoClassDefFoundError" | "PackagesNotFoundError"
        | "MODULE_NOT_FOUND" | "ERR_MODULE_NOT_FOUND" | "PackageNotFoundError"
        | "ResolvePackageNotFound" | "ClassNotFoundException" | "DistributionNotFound"
        => MissingPackage,
    "CommandNotFoundException" => MissingProgram,
    "NameError" | "NoMethodError" | "ReferenceError" | "UndefinedColumn" | "UndefinedTable"
        | "UndefinedFunction" | "UndefinedObject" | "NoSuchMethodError" | "NoSuchFieldError"
        | "FieldError" => UnknownName,
    "ToolNotFoundError" => UnknownTool,
    "InputValidationError" | "ParamValidation" | "InvalidParameterValue" | "MissingParameter"
        | "InvalidArgument" | "ERR_INVALID_ARG_TYPE" | "ValidationException" | "ArgumentError"
        | "ERR_INVALID_ARG_VALUE" | "ERR_INVALID_URL" | "MissingSchema" | "EISDIR"
        | "BadParameter" | "IsADirectoryError" => BadArguments,
    "TimeoutError" | "TimeoutExpired" | "ReadTimeout" | "TimeoutException" | "QueryCanceled"
        | "SocketTimeoutException" | "RequestTimeout" | "DeadlineExceeded" | "ReadTimeoutError"
        | "TaskTimeout" | "APITimeoutError" => Timeout,
    "ConnectionRefusedError" | "ConnectionError" | "ConnectionResetError" | "ECONNREFUSED"
        | "ECONNRESET" | "ENOTFOUND" | "EAI_AGAIN" | "EHOSTUNREACH" | "ENETUNREACH" | "ETIMEDOUT"
        | "NewConnectionError" | "RateLimitError" | "OverloadedError" | "gaierror" | "ConnectError"
        | "ConnectException" | "UnknownHostException" | "ServiceUnavailable" | "Throttling"
        | "ThrottlingException" | "TooManyRequests" | "EndpointConnectionError" | "ConnectTimeout"
        | "ServiceUnavailableException" | "MongoServerSelectionError" | "APIConnectionError"
        | "MongoNetworkError" | "RequestLimitExceeded" | "SlowDown"
        | "ServerSelectionTimeoutError" | "NoBrokersAvailable" => Outage,
    "SystemCheckError" | "TestsFailedException" | "AssertionError" | "AssertionFailedError" | "ERR_ASSERTION" => Check,
    "SyntaxError" | "IndentationError" | "TabError" | "JSONDecodeError" | "JsonParseException"
        | "EJSONPARSE" | "ParseError" | "ParserError" | "ScannerError" | "TOMLDecodeError"
        | "TemplateSyntaxError" | "JSONParseError" | "TOMLKitError" | "YAMLException"
        | "ParserException" | "YAMLParseError" | "ParseException" => Syntax,
    "FileExistsError" | "EEXIST" | "EADDRINUSE" | "ENOTEMPTY" | "EBUSY" | "UniqueViolation"
        | "FileAlreadyExistsException" | "ERESOLVE" | "AlreadyExists" | "ETXTBSY"
        | "DuplicateTable" | "DuplicateColumn" | "DeadlockDetected" | "LockNotAvailable"
        | "DuplicateKeyError" | "BucketAlreadyExists" | "ResourceInUseException"
        | "ConflictException" | "AlreadyExistsException" | "ResourceConflictException"
        | "BindException" | "BucketAlreadyOwnedByYou" | "DuplicateObject" => Conflict,
    "MemoryError" | "OutOfMemoryError" | "ENOSPC" | "ENOMEM" | "EMFILE" | "EDQUOT" | "DiskFull"
        | "OutOfMemoryException" | "ServiceQuotaExceededException" | "LimitExceededException"
        | "ENFILE" | "E2BIG" | "TooManyConnections" => Resource,
};

/// Error codes of web APIs, in lowercase and without `_` and `-`. An API code may also be one of
/// [`NAMES`].
static API_CODES: phf::Map<&'static str, FailureKind> = phf_map! {
    "unauthorized" | "forbidden" | "permissiondenied" | "accessdenied" | "unauthenticated"
        | "authenticationerror" | "permissionerror" | "invalidauth" | "notauthed" | "tokenexpired"
        | "invalidapikey" | "tokenrevoked" | "missingscope" | "notinchannel" | "invalidtoken"
        | "accountinactive" | "invalidgrant" | "insufficientscope" | "expiredtoken"
        | "restrictedresource" | "notallowed" => Permission,
    "notfound" | "notfounderror" | "objectnotfound" | "channelnotfound" | "usernotfound"
        | "resourcenotfound" | "nosuchkey" | "resourcemissing" | "filenotfound"
        | "messagenotfound" => NotFound,
    "validationerror" | "invalidrequest" | "invalidrequesterror" | "badrequest" | "invalidargument"
        | "invalidarguments" | "invalidparameter" | "invalidparams" | "missingparameter"
        | "parametermissing" | "invalidinput" | "unprocessableentity" => BadArguments,
    "ratelimited" | "ratelimiterror" | "ratelimitexceeded" | "toomanyrequests" | "overloaded"
        | "overloadederror" | "serviceunavailable" | "unavailable" | "badgateway" | "throttled"
        | "ratelimit" => Outage,
    "timeout" | "deadlineexceeded" | "requesttimeout" | "timedout" | "querytimeout" => Timeout,
    "conflict" | "conflicterror" | "alreadyexists" | "duplicate" | "nametaken"
        | "idempotencyerror" | "versionconflict" => Conflict,
    "insufficientquota" | "quotaexceeded" | "resourceexhausted" | "storagelimitexceeded"
        | "insufficientstorage" => Resource,
    "undefinedfield" | "unknownfield" | "methodnotfound" | "unknownmethod" => UnknownName,
};

/// The kind of an exception type or errno name, with or without its package:
/// `json.JSONDecodeError`.
pub(super) fn kind_of_name(name: &str) -> Option<FailureKind> {
    let start = name.bytes().rposition(|byte| matches!(byte, b'.' | b':' | b'\\'));
    let name = name.get(start.map_or(0, |at| at + 1)..)?;
    // Most words are not such names. This test is faster than looking them up.
    let may_be_name = (4..=32).contains(&name.len())
        && (name.starts_with(|c: char| c.is_ascii_uppercase()) || name == "gaierror")
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if may_be_name { NAMES.get(name).copied() } else { None }
}

/// The kind of a web API's error code, such as `rate_limit_exceeded`.
pub(super) fn kind_of_api_code(code: &str) -> Option<FailureKind> {
    if code.len() > 40 {
        return None;
    }
    let plain: String =
        code.chars().filter(|c| !matches!(c, '_' | '-')).map(|c| c.to_ascii_lowercase()).collect();
    API_CODES.get(plain.as_str()).copied().or_else(|| kind_of_name(code))
}

/// The kind of an HTTP status code. Most codes say too little: 400 and 500 may mean anything.
pub(super) const fn kind_of_status(status: u16) -> Option<FailureKind> {
    match status {
        401 | 403 | 407 => Some(Permission),
        404 | 410 => Some(NotFound),
        408 => Some(Timeout),
        409 | 412 | 423 => Some(Conflict),
        422 => Some(BadArguments),
        429 | 502 | 503 | 504 | 529 => Some(Outage),
        507 => Some(Resource),
        _ => None,
    }
}
