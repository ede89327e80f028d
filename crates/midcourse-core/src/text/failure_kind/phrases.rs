//! Phrases by which programs, servers and agent tools say why something failed. Each phrase counts
//! only at certain places in a line.

use super::super::phrases::{Phrases, WHOLE};
use super::FailureKind;
use FailureKind::{
    BadArguments, Check, Conflict, EditMismatch, MissingPackage, MissingProgram, NotFound, Other,
    Outage, Permission, Resource, Syntax, Timeout, UnknownName, UnknownTool,
};

/// Where in a line a phrase counts. Text in quotes never counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// At the start of any line, without a word such as `error:` before the phrase. Also at the
    /// start of a part of a line that reports an error.
    Line,
    /// At the start of a part of a line that reports an error, as in `cat: a: Permission denied`.
    Part,
    /// Anywhere in a line that reports an error, as in `fatal: path 'a' already exists`.
    Anywhere,
    /// Anywhere in a line that reports an error; only if no other phrase is in the line. The noun
    /// before the phrase determines the kind: see [`NOUNS`].
    Absent,
}

impl Place {
    const ALL: [Self; 4] = [Self::Line, Self::Part, Self::Anywhere, Self::Absent];
}

/// Phrases that mean the same kind and count at the same place.
struct Group {
    kind: FailureKind,
    place: Place,
    phrases: &'static [&'static str],
}

macro_rules! groups {
    ($($kind:ident, $place:ident: $($phrase:literal),+;)+) => {
        &[$(Group { kind: $kind, place: Place::$place, phrases: &[$($phrase),+] }),+]
    };
}

/// The phrases, in lowercase.
const GROUPS: &[Group] = groups! {
    MissingProgram, Line:
        "der befehl \"";
    MissingProgram, Part:
        "command not found", "not found in path", "executable file not found",
        "executable doesn't exist", "executable not found", "failed to run command",
        "kommando nicht gefunden", "befehl nicht gefunden", "orden no encontrada",
        "no se encontró la orden", "commande introuvable", "comando non trovato",
        "comando não encontrado", "未找到命令", "找不到命令", "コマンドが見つかりません";
    MissingProgram, Anywhere:
        "wurde nicht als name eines cmdlet", "no se reconoce como nombre de un cmdlet",
        "n'est pas reconnu comme nom d'applet", "ist entweder falsch geschrieben",
        "command not found", "executable file not found in", "executable doesn't exist",
        "is not recognized as an internal or external command",
        "is not recognized as the name of a cmdlet", "is not recognized as a name of a cmdlet",
        "cannot execute: required file not found", "bad interpreter",
        "pg_config executable not found", "browser specified in your config is not installed",
        "program not found";
    MissingPackage, Line:
        "unable to find package", "could not find a valid gem", "module not found",
        "could not find a package configuration file", "no module named", "cannot find module",
        "cannot find package", "can't locate", "could not find a version that satisfies",
        "no matching distribution found", "no matching version found", "no matching package",
        "no matching package named", "no required module provides package", "package not found",
        "unable to locate package", "unable to find a match", "unable to resolve dependency",
        "could not find gem", "could not resolve dependencies", "err_pnpm_no_matching_version",
        "library not found for -l", "unmet dependencies";
    MissingPackage, Anywhere:
        "no module named", "in locally installed gems", "unable to locate package",
        "no matching distribution found", "could not find a package configuration file",
        "cannot open shared object file", "has no installation candidate", "cannot find -l",
        "cannot load such file", "cannot find module", "failed opening required",
        "paket kann nicht gefunden werden", "no se ha podido localizar el paquete",
        "no se pudo localizar el paquete", "impossible de trouver le paquet";
    NotFound, Line:
        "404 not found", "404 client error", "file does not exist", "file not found",
        "path does not exist", "the path does not exist", "the system cannot find the path",
        "the system cannot find the file", "das system kann den angegebenen pfad nicht finden",
        "das system kann die angegebene datei nicht finden";
    NotFound, Part:
        "could not find `cargo.toml`", "invalid object name", "invalid user", "invalid group",
        "could not resolve to a", "referencia inválida", "référence invalide", "ungültige referenz",
        "no such file or directory", "no such file", "no such directory", "no such container",
        "no such image", "no such volume", "no such network", "no such object", "no such service",
        "no such process", "no such remote", "no such key", "no such bucket",
        "no such host is known", "path not found", "page not found", "record not found",
        "resource not found", "repository not found", "unknown revision", "pathspec",
        "not a git repository", "unable to access jarfile", "no rule to make target",
        "cannot find path", "cannot find the file", "cannot find the path",
        "datei oder verzeichnis nicht gefunden", "datei nicht gefunden",
        "no existe el fichero o el directorio", "no existe el archivo o el directorio",
        "no existe el fichero", "aucun fichier ou dossier de ce type",
        "file o directory non esistente", "arquivo ou diretório inexistente",
        "arquivo ou diretório não encontrado", "没有那个文件或目录", "そのようなファイルやディレクトリはありません",
        "no hay ninguna regla para construir", "keine regel, um", "kein git-repository",
        "no es un repositorio git";
    NotFound, Anywhere:
        "could not find or load main class", "no such file or directory", "did not match any file",
        "does not appear to be a git repository", "no rule to make target",
        "unknown revision or path", "stimmt mit keinen git bekannten dateien überein",
        "no concordó con ningún archivo", "manifest unknown", "no such container", "no such object",
        "no such image", "cannot find path", "could not find file", "couldn't find remote ref",
        "couldn't find any revision", "invalid reference", "not a valid object name",
        "unable to open database file";
    NotFound, Absent:
        "not found", "does not exist", "doesn't exist", "could not be found", "cannot be found",
        "was not found", "wurde nicht gefunden", "nicht gefunden", "existiert nicht", "no existe",
        "no encontrado", "no encontrada", "n'existe pas", "introuvable";
    UnknownTool, Line:
        "unsupported call:", "no such tool", "unknown tool", "unknown function call",
        "unsupported tool", "tool not found", "unknown skill";
    UnknownTool, Anywhere:
        "no such tool available", "unknown tool", "is not a known tool", "is not a valid tool",
        "tool does not exist", "unsupported call";
    UnknownName, Line:
        "undefined subroutine", "invalid identifier", "err unknown command", "unknown option",
        "unknown flag", "unknown command", "unknown subcommand", "unknown shorthand flag",
        "unknown json field", "unknown field", "unknown argument", "unknown column",
        "unknown property", "unknown attribute", "unknown keyword", "unknown database",
        "unknown table", "unknown function", "unknown identifier", "unknown type name",
        "unrecognized option", "unrecognized command", "unrecognized argument", "unrecognized name",
        "unrecognized vm option", "unrecognized subcommand", "unrecognised option",
        "unrecognized field", "missing script", "invalid subcommand", "no such command",
        "no such option", "no such subcommand", "option inconnue", "unbekannte option",
        "unbekannter befehl";
    UnknownName, Part:
        "is unknown", "unsupported argument", "reference to undeclared", "invalid column name",
        "unknown predicate", "unknown primary or operator", "illegal option", "invalid option --",
        "bad option", "no such column", "no such table", "no such function", "no such index",
        "no such collection", "undefined method", "undefined local variable", "undefined variable",
        "undefined function", "uninitialized constant", "call to undefined", "cannot import name",
        "undefined column", "ungültige option --", "opción no reconocida", "opción incorrecta",
        "opción inválida", "option non reconnue", "option invalide --", "opzione non riconosciuta",
        "ungültiger befehl", "unbekanntes argument", "unresolved import", "no such property";
    UnknownName, Anywhere:
        "invalid column name", "unrecognized option", "unrecognized command-line option",
        "unrecognized arguments", "unrecognized command line option", "unknown option",
        "unknown flag", "unknown column", "no such option", "no such column", "no such table",
        "no such function", "is not a git command", "ist kein git-befehl",
        "no es un comando de git", "n'est pas une commande git", "is not a docker command",
        "unexpected keyword argument", "is not a function", "is not defined", "call to undefined",
        "undefined method", "doesn't have a resource type", "is not a property that exists",
        "doesn't exist on type", "could not find function", "has no attribute",
        "cannot query field", "is not a valid field";
    Permission, Line:
        "noauth authentication required", "noperm this user", "wrongpass invalid",
        "failed in sandbox", "cd to '", "permission denied", "access denied", "access is denied",
        "permission to", "operation not permitted", "403 forbidden", "401 unauthorized",
        "403 client error", "401 client error", "authentication failed", "authentication required",
        "host key verification failed", "to get started with github cli, please run",
        "file path must be within", "bad credentials", "invalid api key", "not authorized",
        "you must be logged in", "the user doesn't want to proceed",
        "command was rejected by the user", "access to the path";
    Permission, Part:
        "no valid credential sources",
        "externally-managed-environment", "permission_denied", "detected dubious ownership",
        "forbidden", "unauthorized", "unauthenticated", "not permitted", "read-only file system",
        "attempt to write a readonly database", "must be owner of", "must be superuser",
        "password authentication failed", "a password is required",
        "a terminal is required to read the password", "no pg_hba.conf entry",
        "could not read username", "could not read password", "keine berechtigung",
        "zugriff verweigert", "vorgang nicht zulässig", "die operation ist nicht erlaubt",
        "operation nicht erlaubt", "das dateisystem ist nur lesbar", "permiso denegado",
        "operación no permitida", "permission non accordée", "opération non permise",
        "permesso negato", "permissão negada", "权限不够", "不允许的操作", "許可がありません",
        "unable to locate credentials", "you must be root", "must be run as root";
    Permission, Anywhere:
        "command denied to user", "permission denied", "permiso denegado", "access denied",
        "is forbidden", "password authentication failed", "requires authentication",
        "is not authorized to", "not authorized to perform", "are you root", "are you logged in",
        "keine berechtigung", "wurde verweigert", "authentication failed",
        "authentication required", "read-only file system", "attempt to write a readonly database",
        "operation not permitted", "requires login", "please run 'az login'",
        "insufficient privileges", "insufficient permissions", "must have admin rights",
        "protected branch", "outside allowed directories", "not in the sudoers file",
        "credentials have expired", "token has expired";
    Timeout, Line:
        "command timed out after", "command timed out", "the command timed out",
        "request timed out", "operation timed out", "execution timed out", "timed out waiting for",
        "timed out after", "context deadline exceeded", "deadline exceeded",
        "navigation timeout of", "timeout of", "test timed out";
    Timeout, Part:
        "deadline_exceeded", "timed out", "timeout exceeded",
        "canceling statement due to statement timeout",
        "cancelando la sentencia debido a que se agotó",
        "storniere anfrage wegen zeitüberschreitung", "zeitüberschreitung",
        "annulation de la requête à cause du délai";
    Timeout, Anywhere:
        "timed out after", "timed out waiting for", "context deadline exceeded",
        "statement timeout", "maximum execution time of";
    Outage, Line:
        "warning: retrying (", "warning: retrying after",
        "api rate limit exceeded", "the connection to the server", "connection refused",
        "connection reset by peer", "connection closed", "connection timed out",
        "could not connect to", "cannot connect to the docker daemon", "could not resolve host",
        "temporary failure in name resolution", "temporary failure resolving",
        "network is unreachable", "no route to host", "service unavailable",
        "429 too many requests", "502 bad gateway", "503 service", "504 gateway",
        "too many requests", "rate limit exceeded", "rate limit reached", "fetch failed",
        "the service is currently unavailable";
    Outage, Part:
        "unable to resolve host", "can't reach database server",
        "connection reset", "could not resolve hostname", "name or service not known",
        "nodename nor servname provided", "no such host", "failed to connect to",
        "couldn't connect to", "can't connect to", "unable to connect to", "host is unreachable",
        "remote end closed connection", "the remote end hung up", "socket hang up",
        "net::err_name_not_resolved", "net::err_connection_refused",
        "net::err_internet_disconnected", "getaddrinfo", "overloaded", "bad gateway",
        "verbindungsaufbau abgelehnt", "conexión rehusada", "connexion refusée",
        "connessione rifiutata", "conexão recusada", "拒绝连接", "接続を拒否されました", "unreachable!",
        "net/http: tls handshake timeout";
    Outage, Anywhere:
        "connection refused", "connection reset by peer", "could not resolve host",
        "couldn't connect to server", "temporary failure in name resolution",
        "temporary failure resolving", "no route to host", "network is unreachable",
        "net::err_name_not_resolved", "net::err_connection_refused", "service unavailable",
        "too many requests", "rate limit exceeded", "unreachable!", "no such host",
        "connect to the docker daemon", "dial tcp";
    BadArguments, Line:
        "missing field `",
        "wrongtype operation", "the required parameter", "missing required argument",
        "missing required parameter", "missing required option", "missing required field",
        "invalid arguments", "invalid argument", "invalid parameter", "invalid params",
        "invalid requirement", "invalid value for", "failed to parse function arguments",
        "422 unprocessable", "too many arguments", "too few arguments", "not enough arguments";
    BadArguments, Part:
        "invalid input syntax for type", "fehlender zieldatei", "falta el fichero de destino",
        "falta un fichero", "opérande de fichier cible manquant", "invalid_argument",
        "invalid `view_range`", "missing operand", "missing destination file operand",
        "missing file operand", "missing argument", "missing positional argument",
        "option requires an argument", "requires an argument", "requires at least",
        "requires exactly", "invalid number of", "invalid value", "invalid mode", "invalid date",
        "invalid time interval", "invalid context length argument", "invalid type", "extra operand",
        "url using bad/illegal format", "the following arguments are required", "required option",
        "falta un operando", "fehlender operand", "opérande manquant", "invalid format",
        "invalid integer", "invalid duration", "no urls specified", "you must specify",
        "must specify", "expected one argument", "expected at least one argument",
        "illegal operation on a directory", "is a directory", "ist ein verzeichnis",
        "es un directorio", "est un dossier";
    BadArguments, Anywhere:
        "invalid choice", "the following arguments are required", "required positional argument",
        "positional arguments but", "requires at least", "requires exactly", "required argument",
        "required parameter", "expected one argument", "option requires an argument",
        "invalid value for", "invalid type:", "the following required arguments were not provided";
    Syntax, Line:
        "syntax error", "parse error", "missing close-brace", "unexpected end of file",
        "unexpected eof";
    Syntax, Part:
        "cannot parse", "fehlender trenner", "nicht beendeter", "-e expression #", "-e ausdruck #",
        "-e expresión #", "-e expression n°", "error sintáctico", "error de sintaxis",
        "syntaxfehler", "erreur de syntaxe", "parsing error", "missing separator",
        "unexpected token", "unterminated", "unexpected end of json input", "invalid syntax",
        "yaml: line", "only garbage was found in the patch input", "invalid json",
        "mapping values are not allowed", "did not find expected", "falta un separador",
        "fehlendes trennzeichen", "séparateur manquant", "未预期的符号";
    Syntax, Anywhere:
        "syntax error", "parse error", "unexpected eof while looking for",
        "error in your sql syntax", "is not valid json", "not valid json",
        "error converting yaml to json", "syntax error near unexpected token", "could not parse",
        "failed to parse", "unterminated string", "missing separator", "syntaxfehler",
        "error sintáctico", "corrupt patch at", "is not a valid hunk header";
    EditMismatch, Line:
        "could not find exact match for edit", "string to replace not found",
        "no replacement was performed", "search/replace block failed to match",
        "searchreplacenoexactmatch", "old_string not found", "old_str not found",
        "could not find the string to replace", "could not find the exact text",
        "failed to find expected lines", "failed to find context", "the search block", "hunk #",
        "patch does not apply", "patch failed", "can't find file to patch",
        "no changes to make: old_string", "anwendung des patches fehlgeschlagen",
        "patch konnte nicht angewendet werden", "el parche falló", "el parche no aplica";
    EditMismatch, Anywhere:
        "string to replace not found", "of the string to replace", "patch does not apply",
        "patch failed", "did not appear verbatim", "failed to match",
        "failed to find expected lines", "old_string not found",
        "could not find the string to replace", "failed to find context", "not unique in the file",
        "multiple occurrences of old_str", "0 occurrences found";
    Conflict, Line:
        "file exists", "file already exists", "file has not been read yet",
        "file has been modified since", "file has been unexpectedly modified",
        "address already in use", "directory not empty", "device or resource busy",
        "text file busy", "database is locked", "conflict (", "konflikt (", "conflicto (",
        "conflit (", "merge conflict in", "automatic merge failed", "! [rejected]",
        "! [zurückgewiesen]", "! [rechazado]", "! [rejeté]",
        "your local changes to the following files would be overwritten",
        "the following untracked working tree files would be overwritten", "409 conflict",
        "409 client error", "duplicate key value", "duplicate entry", "deadlock found",
        "deadlock detected", "port is already allocated", "unique constraint failed",
        "dependency conflict", "eresolve", "blocking waiting for file lock",
        "another app is currently holding";
    Conflict, Part:
        "doppelter schlüsselwert", "llave duplicada viola", "la valeur d'une clé dupliquée",
        "already_exists", "timeout waiting to lock", "lock wait timeout exceeded",
        "could not get lock", "unable to acquire the dpkg", "error acquiring the state lock",
        "cannot pull with rebase", "cannot rebase", "you have unstaged changes",
        "you need to resolve your current index first", "die datei existiert bereits",
        "datei existiert bereits", "das verzeichnis ist nicht leer",
        "die adresse wird bereits verwendet", "das gerät oder die ressource ist belegt",
        "el fichero ya existe", "el archivo ya existe", "el directorio no está vacío",
        "la dirección ya se está usando", "le fichier existe", "le dossier n'est pas vide", "文件已存在",
        "ファイルが存在します", "los cambios locales de los siguientes archivos",
        "ihre lokalen änderungen in den folgenden dateien",
        "vos modifications locales aux fichiers suivants", "sperre", "multiple head revisions",
        "relation already exists", "cannot lock ref";
    Conflict, Anywhere:
        "conflicting dependencies", "already exists", "already in use", "address already in use",
        "is already allocated", "is already locked", "is already used by", "already checked out at",
        "already being used by", "still in use", "is locked", "is being used by another process",
        "existiert bereits", "ya existe", "existe déjà", "duplicate key value", "duplicate entry",
        "unique constraint failed", "would be overwritten by", "could not serialize access",
        "lock wait timeout", "conflict occurred", "unmerged files", "is not fully merged",
        "another git process", "non-fast-forward", "lock file's", "conflicts with",
        "has been modified since";
    Resource, Line:
        "oom command not allowed", "file content (", "no space left on device",
        "cannot allocate memory", "out of memory", "disk quota exceeded", "too many open files",
        "fatal error: reached heap limit", "fatal error: ineffective mark-compacts", "oomkilled",
        "quota exceeded", "reached heap limit", "killed signal terminated program";
    Resource, Part:
        "cannot fork", "resource_exhausted", "nicht genügend hauptspeicher",
        "auf dem gerät ist kein speicherplatz mehr", "kein speicherplatz mehr",
        "no queda espacio en el dispositivo", "aucun espace disponible sur le périphérique",
        "spazio esaurito sul device", "设备上没有空间", "デバイスに空き領域がありません", "argument list too long",
        "java heap space", "database or disk is full",
        "system limit for number of file watchers reached", "file too large", "file name too long",
        "memory exhausted", "virtual memory exhausted", "insufficient memory";
    Resource, Anywhere:
        "memory limit exceeded", "memory limit (",
        "enough free space", "no space left on device", "out of memory", "out-of-memory",
        "cannot allocate memory", "disk quota exceeded", "quota exceeded",
        "exceeded your current quota", "too many open files", "heap out of memory",
        "reached heap limit", "over its data quota", "too many connections",
        "remaining connection slots are reserved", "allowed memory size of";
    Check, Line:
        "assertion failed", "schema validation error";
};

/// Nouns that say what does not exist, in a line with a phrase of [`Place::Absent`], and the kind
/// that each noun indicates.
const NOUNS: &[(&str, FailureKind)] = &[
    ("column", UnknownName),
    ("function", UnknownName),
    ("method", UnknownName),
    ("property", UnknownName),
    ("attribute", UnknownName),
    ("field", UnknownName),
    ("operator", UnknownName),
    ("symbol", UnknownName),
    ("identifier", UnknownName),
    ("option", UnknownName),
    ("parameter", UnknownName),
    ("subcommand", UnknownName),
    ("spalte", UnknownName),
    ("tabelle", UnknownName),
    ("colonne", UnknownName),
    ("columna", UnknownName),
    ("relación", UnknownName),
    ("relation", UnknownName),
    ("table", UnknownName),
    ("tool", UnknownTool),
    ("context", EditMismatch),
    ("module", MissingPackage),
    ("package", MissingPackage),
    ("library", MissingPackage),
    ("gem", MissingPackage),
    ("crate", MissingPackage),
    ("command", MissingProgram),
    ("program", MissingProgram),
    ("executable", MissingProgram),
    // With these nouns, the kind is uncertain, or the reason is not a missing object.
    ("permission", Other),
    ("signature", Other),
    ("host", Other),
    ("constraint", Other),
];

/// A noun after a phrase of [`Place::Absent`] counts if it begins at most this many bytes after the
/// start of the phrase.
const MAX_NOUN_DISTANCE: usize = 14;

static NOUN_PHRASES: Phrases<{ NOUNS.len() }> = {
    let mut list = [("", 0); NOUNS.len()];
    let mut at = 0;
    while at < NOUNS.len() {
        #[expect(clippy::indexing_slicing, reason = "the index is below the length")]
        {
            list[at] = (NOUNS[at].0, WHOLE | NOUNS[at].1 as u16);
        }
        at += 1;
    }
    Phrases::new(list)
};

/// The kind of a failure because something does not exist. The noun that names the missing object
/// determines the kind. `end` is the offset of the phrase of [`Place::Absent`]. The last noun
/// before the phrase counts, or else one shortly after its start, as in `no existe la columna`.
/// `is_quoted` says whether an offset of the text is in quotes; nouns in quotes do not count.
pub(super) fn kind_of_absent(
    text: &str,
    end: usize,
    is_quoted: impl Fn(usize) -> bool,
) -> FailureKind {
    let mut noun = None;
    for (at, bits) in NOUN_PHRASES.find_in(text.as_bytes()).filter(|(at, _)| !is_quoted(*at)) {
        if at < end || (noun.is_none() && at - end <= MAX_NOUN_DISTANCE) {
            noun = Some(bits);
        }
    }
    noun.and_then(|bits| FailureKind::ALL.get(usize::from(bits))).copied().unwrap_or(NotFound)
}

/// The bits of a phrase contain its kind in the lowest `PLACE_SHIFT` bits and its place above them.
const PLACE_SHIFT: u16 = 4;

const COUNT: usize = {
    let (mut count, mut at) = (0, 0);
    while at < GROUPS.len() {
        #[expect(clippy::indexing_slicing, reason = "the index is below the length")]
        {
            count += GROUPS[at].phrases.len();
        }
        at += 1;
    }
    count
};

static PHRASES: Phrases<COUNT> = {
    let mut list = [("", 0); COUNT];
    let (mut group, mut to) = (0, 0);
    #[expect(clippy::indexing_slicing, reason = "every index is below the length")]
    while group < GROUPS.len() {
        let Group { kind, place, phrases } = &GROUPS[group];
        let mut at = 0;
        while at < phrases.len() {
            list[to] = (phrases[at], *kind as u16 | (*place as u16) << PLACE_SHIFT);
            at += 1;
            to += 1;
        }
        group += 1;
    }
    Phrases::new(list)
};

fn meaning(bits: u16) -> Option<(FailureKind, Place)> {
    let kind = FailureKind::ALL.get(usize::from(bits & ((1 << PLACE_SHIFT) - 1)))?;
    Some((*kind, *Place::ALL.get(usize::from(bits >> PLACE_SHIFT))?))
}

/// All phrases in a line: the offset, the kind and the place of each.
pub(super) fn phrases_in(line: &str) -> impl Iterator<Item = (usize, FailureKind, Place)> + '_ {
    PHRASES.find_in(line.as_bytes()).filter_map(|(at, bits)| {
        let (kind, place) = meaning(bits)?;
        Some((at, kind, place))
    })
}

/// The kind of a line that begins with a phrase of [`Place::Line`].
pub(super) fn kind_at_line_start(line: &str) -> Option<FailureKind> {
    let mut found = PHRASES.at_start_of(line.as_bytes()).filter_map(meaning);
    found.find_map(|(kind, place)| (place == Place::Line).then_some(kind))
}
