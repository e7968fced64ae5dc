PRAGMA application_id=1396787009;
BEGIN TRANSACTION;
CREATE TABLE saga (
	id VARCHAR NOT NULL, 
	realm VARCHAR NOT NULL, 
	caller VARCHAR NOT NULL, 
	conversation VARCHAR NOT NULL, 
	"key" VARCHAR NOT NULL, 
	purpose VARCHAR NOT NULL, 
	phase VARCHAR NOT NULL, 
	state VARCHAR NOT NULL, 
	driver VARCHAR NOT NULL, 
	busy BOOLEAN NOT NULL, 
	open BOOLEAN NOT NULL, 
	items INTEGER NOT NULL, 
	steps INTEGER NOT NULL, 
	seq INTEGER NOT NULL, 
	opened_at FLOAT NOT NULL, 
	updated_at FLOAT NOT NULL, 
	idle_from_s FLOAT, 
	PRIMARY KEY (id)
)
 WITHOUT ROWID

;
INSERT INTO "saga" VALUES('sg-old','ops','ada','','','trip','active','active','own-1',0,1,0,1,3,11.5,15.5,0.0);
INSERT INTO "saga" VALUES('sg-over','ops','ada','','k','','committed','committed','own-1',0,0,0,0,2,17.5,19.5,NULL);
CREATE TABLE saga_event (
	saga_id VARCHAR NOT NULL, 
	seq INTEGER NOT NULL, 
	type VARCHAR NOT NULL, 
	version INTEGER NOT NULL, 
	at FLOAT NOT NULL, 
	batch_id VARCHAR NOT NULL, 
	facts TEXT NOT NULL, 
	payload TEXT, 
	PRIMARY KEY (saga_id, seq)
)
 WITHOUT ROWID

;
INSERT INTO "saga_event" VALUES('sg-old',1,'SagaOpened',1,10.5,'d84d587093ca4b05.1','{"realm":"ops","driver":"own-1","on_error":"abort","on_undo_failure":"halt","caller":"ada","conversation":"","key":"","purpose":"trip","implicit":false}',NULL);
INSERT INTO "saga_event" VALUES('sg-old',2,'StepIntended',1,12.5,'d84d587093ca4b05.2','{"step":1,"owner":"own-1","seen":0,"received":[],"plan":{"tool":"travel.charge","kind":"compensable","pair_hash":"pppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppp","target_id":"","host":"","idempotent":false,"has_probe":false,"safe_if_absent":false,"guarded":false,"outlives_us":false,"looks_after":false,"step_key":"","call_id":""}}','{"plan":{"args":{"card":"4111"},"args_digest":"b87f4943c3506238ed4199d84d21becf"}}');
INSERT INTO "saga_event" VALUES('sg-old',3,'StepSucceeded',1,14.5,'d84d587093ca4b05.3','{"step":1,"parts":[{"action":"call","tool":"travel.refund","entry":0,"idempotent":false,"has_probe":false,"outlives_us":false,"urgency":"normal","limits":null}]}','{"result":{"id":7},"parts":[{"args":{"charge":"ch-1"}}]}');
INSERT INTO "saga_event" VALUES('sg-over',1,'SagaOpened',1,16.5,'d84d587093ca4b05.4','{"realm":"ops","driver":"own-1","on_error":"abort","on_undo_failure":"halt","caller":"ada","conversation":"","key":"k","purpose":"","implicit":false}',NULL);
INSERT INTO "saga_event" VALUES('sg-over',2,'SagaCommitted',1,18.5,'d84d587093ca4b05.5','{"by":"agent","accepted":[]}',NULL);
CREATE TABLE saga_hold (
	realm VARCHAR NOT NULL, 
	name VARCHAR NOT NULL, 
	saga_id VARCHAR NOT NULL, 
	PRIMARY KEY (realm, name)
)
 WITHOUT ROWID

;
CREATE TABLE saga_log_meta (
	only_row INTEGER NOT NULL, 
	epoch INTEGER NOT NULL, 
	PRIMARY KEY (only_row)
);
INSERT INTO "saga_log_meta" VALUES(1,3);
CREATE TABLE saga_log_revision (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT saga_log_revision_pkc PRIMARY KEY (version_num)
);
INSERT INTO "saga_log_revision" VALUES('0003');
CREATE TABLE saga_pair (
	hash VARCHAR NOT NULL, 
	content TEXT NOT NULL, 
	PRIMARY KEY (hash)
);
CREATE TABLE saga_realm (
	name VARCHAR NOT NULL, 
	observed_s FLOAT NOT NULL, 
	PRIMARY KEY (name)
)
 WITHOUT ROWID

;
CREATE TABLE saga_step_lock (
	realm VARCHAR NOT NULL, 
	name VARCHAR NOT NULL, 
	saga_id VARCHAR NOT NULL, 
	owner VARCHAR NOT NULL, 
	token VARCHAR NOT NULL, 
	PRIMARY KEY (realm, name)
)
 WITHOUT ROWID

;
CREATE INDEX saga_newest ON saga (realm, opened_at);
CREATE INDEX saga_open ON saga (realm, opened_at) WHERE open;
CREATE INDEX saga_busy ON saga (realm, opened_at) WHERE busy;
CREATE INDEX saga_waiting ON saga (realm, opened_at) WHERE items > 0;
CREATE INDEX saga_idle ON saga (realm, idle_from_s) WHERE idle_from_s IS NOT NULL;
CREATE UNIQUE INDEX saga_key ON saga (realm, caller, "key") WHERE key <> '';
COMMIT;
