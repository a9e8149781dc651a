-- The account that Palisade logs in as: it can read, and nothing else. `palisade setup-sql` prints one that can read no more
-- than your policies show.
\getenv password READER_PASSWORD
BEGIN;
CREATE ROLE palisade_reader LOGIN NOINHERIT NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS
    CONNECTION LIMIT 10 PASSWORD :'password';
ALTER ROLE palisade_reader SET default_transaction_read_only = on;
ALTER ROLE palisade_reader SET statement_timeout = '30000ms';
ALTER ROLE palisade_reader SET idle_in_transaction_session_timeout = '10000ms';
GRANT USAGE ON SCHEMA public TO palisade_reader;
GRANT SELECT ON ALL TABLES IN SCHEMA public TO palisade_reader;
COMMIT;
